#include "cli/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Servers and workers that do nothing but write down how they were started.
class ClusterTest : public testing::Test {
 protected:
  ClusterTest() {
    for (const char* program : {"longwave-server", "longwave-worker"}) {
      const std::string path = absl::StrCat(root_, "/", program);
      std::ofstream(path) << "#!/bin/sh\necho \"$$ $*\" >> " << root_
                          << "/started\necho ready 127.0.0.1:77\nexec sleep 1000\n";
      std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    }
    config_.run.name = "run";
    config_.run.workers = 1;
    config_.run.shards = 1;
    config_.cluster.shard_host = "127.0.0.1";
    auto folder = RunFolder::Create(root_ + "/runs", config_, absl::Now());
    EXPECT_TRUE(folder.ok()) << folder.status();
    folder_.emplace(*std::move(folder));
  }

  void Start(bool keep_state, std::vector<std::string> worker_command = {}) {
    cluster_ = std::make_unique<Cluster>(ClusterOptions{.binaries = root_,
                                                        .worker_binaries = root_,
                                                        .worker_command = std::move(worker_command),
                                                        .keep_state = keep_state},
                                         &config_, &*folder_, -1);
    const absl::Status started = cluster_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  struct Started {
    pid_t pid = 0;
    std::string arguments;
  };
  // The commands as the programs recorded them, once there are `count`.
  std::vector<Started> AwaitStarted(size_t count) {
    while (true) {
      std::ifstream file(root_ + "/started");
      std::vector<Started> all;
      for (std::string line; std::getline(file, line);) {
        const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
        Started& each = all.emplace_back();
        EXPECT_TRUE(absl::SimpleAtoi(parts[0], &each.pid));
        each.arguments = parts[1];
      }
      if (all.size() >= count) return all;
      EXPECT_TRUE(cluster_->Supervise(absl::Milliseconds(10)).ok());
    }
  }
  static pid_t PidOf(const std::vector<Started>& started, const std::string& part) {
    for (auto it = started.rbegin(); it != started.rend(); ++it) {
      if (it->arguments.find(part) != std::string::npos) return it->pid;
    }
    ADD_FAILURE() << "nobody was started with " << part;
    return 0;
  }

  const TestFolder temporary_;
  const std::string root_ = temporary_.path();
  RunConfig config_;
  std::optional<RunFolder> folder_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(ClusterTest, GivesEveryProcessAFolderOfItsOwn) {
  Start(/*keep_state=*/true);
  std::string all;
  for (const Started& started : AwaitStarted(3)) absl::StrAppend(&all, started.arguments, "\n");
  for (const char* process : {"coordinator", "shard-0", "worker-0"}) {
    EXPECT_THAT(all, HasSubstr(absl::StrCat("--state-dir ", root_, "/runs/run/state/", process)));
  }
}

TEST_F(ClusterTest, KeepsNothingIfToldSo) {
  Start(/*keep_state=*/false);
  for (const Started& started : AwaitStarted(3)) {
    EXPECT_THAT(started.arguments, testing::Not(HasSubstr("--state-dir")));
  }
}

TEST_F(ClusterTest, StartsAgainWhatWasKilledWhereItListenedBefore) {
  Start(/*keep_state=*/true);
  kill(PidOf(AwaitStarted(3), "--role=shard"), SIGKILL);
  const std::vector<Started> started = AwaitStarted(4);
  EXPECT_THAT(started[3].arguments, HasSubstr("--role=shard"));
  EXPECT_THAT(started[3].arguments, HasSubstr("--listen 127.0.0.1:77 "));
  EXPECT_EQ(cluster_->restarts(), 1u);
  EXPECT_THAT(cluster_->TakeNotices(),
              ElementsAre("shard-0 was killed by signal 9 (Killed) and is started again"));
  EXPECT_THAT(cluster_->TakeNotices(), IsEmpty());
  EXPECT_EQ(cluster_->FirstEnded(), nullptr);
}

// The command records and prints its environment as the other programs do with their arguments.
TEST_F(ClusterTest, TellsACommandByItsEnvironmentAndTellsItAgain) {
  unsetenv("LONGWAVE_PYTHON_CACHE");  // of whoever runs the tests (tests/python/packages.sh)
  config_.metrics.listen = "127.0.0.1:9464";
  Start(
      /*keep_state=*/true,
      {"/bin/sh", "-c",
       absl::StrCat("echo \"$$ $* $(env | grep ^LONGWAVE_ | sort | tr '\\n' ' ')\" >> ", root_,
                    "/started; echo a line of its own; echo metrics http://127.0.0.1:99/metrics "
                    ">&2; exec sleep 1000"),
       "sh", "its own argument"});
  const std::string told = absl::StrCat(
      "its own argument LONGWAVE_COORDINATOR=127.0.0.1:77 LONGWAVE_METRICS=127.0.0.1:0 "
      "LONGWAVE_NAME=worker-0 LONGWAVE_RUN_DIR=",
      root_,
      "/runs/run LONGWAVE_SECURITY=off "
      "LONGWAVE_STATE_DIR=",
      root_, "/runs/run/state/worker-0 LONGWAVE_TOKEN= LONGWAVE_WORKERS=1 ");
  EXPECT_EQ(AwaitStarted(3)[2].arguments, told);
  const auto printed = [&] {
    std::ifstream log(folder_->log_file("worker-0"));
    return std::string(std::istreambuf_iterator<char>(log), {});
  };
  while (printed().find("own\n") == std::string::npos) {
    EXPECT_TRUE(cluster_->Supervise(absl::Milliseconds(10)).ok());
  }
  while (!std::filesystem::exists(folder_->targets_file())) {
    EXPECT_TRUE(cluster_->Supervise(absl::Milliseconds(10)).ok());
  }
  kill(PidOf(AwaitStarted(3), "its own argument"), SIGKILL);
  EXPECT_EQ(AwaitStarted(4)[3].arguments,
            absl::StrReplaceAll(told, {{"127.0.0.1:0 ", "127.0.0.1:99 "}}));
}

TEST_F(ClusterTest, ACommandsLinesAreInItsLogUntilItHasEnded) {
  for (const bool parks : {true, false}) {
    std::filesystem::remove(folder_->log_file("worker-0"));
    Start(/*keep_state=*/parks,
          {"/bin/sh", "-c",
           "trap 'for i in $(seq 3000); do echo line $i; done; echo the last; exit 0' TERM; "
           "echo ready; while :; do sleep 0.01; done"});
    const auto printed = [&] {
      std::ifstream log(folder_->log_file("worker-0"));
      return std::string(std::istreambuf_iterator<char>(log), {});
    };
    while (printed().find("ready\n") == std::string::npos)
      EXPECT_TRUE(cluster_->Supervise(absl::Milliseconds(10)).ok());
    const absl::Time deadline = MonotonicNow() + absl::Seconds(30);
    if (parks) cluster_->Park(deadline);
    if (!parks) cluster_->Stop(deadline, absl::ZeroDuration(), nullptr);
    EXPECT_THAT(printed(), HasSubstr("\nline 1\n")) << parks;
    EXPECT_THAT(printed(), testing::EndsWith("line 3000\nthe last\n")) << parks;
  }
}

// An earlier start of the run wrote into the same log.
TEST_F(ClusterTest, TakesACommandsMetricsFromItsOwnPartOfTheLog) {
  std::ofstream(folder_->log_file("worker-0")) << "metrics http://127.0.0.1:11/metrics\n";
  config_.metrics.listen = "127.0.0.1:9464";
  Start(/*keep_state=*/true,
        {"/bin/sh", "-c", "echo metrics http://127.0.0.1:99/metrics >&2; exec sleep 1000"});
  while (!std::filesystem::exists(folder_->targets_file())) {
    EXPECT_TRUE(cluster_->Supervise(absl::Milliseconds(10)).ok());
  }
  std::ifstream targets(folder_->targets_file());
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(targets), {}),
              testing::AllOf(HasSubstr("127.0.0.1:99"), testing::Not(HasSubstr("127.0.0.1:11"))));
}

TEST_F(ClusterTest, GivesUpAProcessThatIsKilledAgainAndAgain) {
  Start(/*keep_state=*/true);
  for (size_t i = 0; i < RestartBudget::kMax; ++i) {
    kill(PidOf(AwaitStarted(3 + i), "--name worker-0"), SIGKILL);
    AwaitStarted(4 + i);
  }
  kill(PidOf(AwaitStarted(3 + RestartBudget::kMax), "--name worker-0"), SIGKILL);
  absl::Status status;
  while (status.ok()) status = cluster_->Supervise(absl::Seconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("worker-0 was killed by signal 9 (Killed) and had been started again 5 "
                        "times within 1m already; see "));
}

TEST_F(ClusterTest, EndsWithAKilledProcessWhereNothingIsKept) {
  Start(/*keep_state=*/false);
  kill(PidOf(AwaitStarted(3), "--name worker-0"), SIGKILL);
  absl::Status status;
  while (status.ok()) status = cluster_->Supervise(absl::Seconds(1));
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker-0: ended by signal 9"));
}

TEST(RestartBudget, ForgetsWhatIsLongAgo) {
  RestartBudget budget;
  const absl::Time begin = absl::UnixEpoch();
  for (size_t i = 0; i < RestartBudget::kMax; ++i) {
    EXPECT_TRUE(budget.Spend(begin + absl::Seconds(i)));
  }
  EXPECT_FALSE(budget.Spend(begin + absl::Seconds(59)));
  EXPECT_TRUE(budget.Spend(begin + absl::Seconds(60)));
  EXPECT_FALSE(budget.Spend(begin + absl::Seconds(60)));
}

}  // namespace
}  // namespace longwave
