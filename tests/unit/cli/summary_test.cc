#include "cli/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/logs.h"
#include "cli/run_folder.h"
#include "cli/status_feed.h"
#include "cli/view.h"
#include "common/base/utf8.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

RunConfig FinishedConfig() {
  RunConfig config;
  config.run = {.preset = "longwave", .steps = 20, .workers = 2, .shards = 3};
  config.sync.inner_steps = 10;
  return config;
}

RunStatus FinishedStatus() {
  RunStatus status;
  status.parameters = 1000;
  status.members.resize(2);
  for (MemberStatus& member : status.members) {
    member.state.step = 20;
    member.state.tokens = 512;
    member.state.bytes = {100, 200, 80, 160};
  }
  status.records.resize(2);
  status.records[1].round = 1;
  status.records[1].step = 20;
  status.record_count = 2;
  status.replicas_equal = true;
  status.state_hash = 0xdeadbeef;
  status.validation_loss = 2.5;
  status.seconds = 4;
  return status;
}

TEST(Summary, CountsRoundsWithoutARecordToo) {
  RunStatus status = FinishedStatus();
  status.records[1].round = 59;  // all members skipped the rounds between
  EXPECT_EQ(Summarize(FinishedConfig(), status, RunOutcome::kFinished, "", 5).rounds, 60u);
  status.records.clear();
  EXPECT_EQ(Summarize(FinishedConfig(), status, RunOutcome::kStopped, "", 5).rounds, 0u);
}

TEST(Summary, CountsOverAllWorkersWhatWasSentAndWhatOthersWouldHave) {
  const auto json = nlohmann::json::parse(FormatSummaryJson(
      Summarize(FinishedConfig(), FinishedStatus(), RunOutcome::kFinished, "", 5)));
  auto with_wanted = json;
  with_wanted.merge_patch(nlohmann::json::parse(R"({
      "outcome": "finished", "preset": "longwave", "workers": 2, "shards": 3, "params": 1000,
      "steps": 20, "rounds": 2, "tokens": 1024, "val_loss": 2.5, "wall_seconds": 4.0,
      "bytes_pushed": 200, "bytes_pulled": 400,
      "payload_bytes_pushed": 160, "payload_bytes_pulled": 320,
      "bytes_ddp_fp32": 160000, "bytes_diloco_fp32": 16000,
      "replicas_equal": true, "state_hash": "00000000deadbeef", "failure": ""})"));
  EXPECT_EQ(with_wanted, json);
}

TEST(Summary, OfARunThatDidNothingIsStillJson) {
  const auto json = nlohmann::json::parse(FormatSummaryJson(
      Summarize(FinishedConfig(), RunStatus(), RunOutcome::kFailed, "no \xff luck", 1)));
  EXPECT_TRUE(json["val_loss"].is_null());
  EXPECT_EQ(json["replicas_equal"], false);
  EXPECT_EQ(json["outcome"], "failed");
}

TEST(Summary, AsJsonHasNothingThatATerminalObeys) {
  Summary summary;
  summary.failure = "worker-1: \x1b[2J\n\x7f\xc2\x9b\xe2\x80\xae\xff";
  const std::string json = FormatSummaryJson(summary);
  EXPECT_EQ(FindControlCharacter(json, "\n"), std::string::npos) << json;
  EXPECT_EQ(nlohmann::json::parse(json)["failure"],
            "worker-1: \x1b[2J\n\x7f\xc2\x9b\xe2\x80\xae\xef\xbf\xbd");
}

TEST(Summary, FailsAFinishedRunWhoseReplicasDifferAgainstThePromise) {
  RunStatus status = FinishedStatus();
  status.replicas_equal = false;
  status.inequality = "round 1: worker-1 differs in segment 0";
  const Summary failed = Summarize(FinishedConfig(), status, RunOutcome::kFinished, "", 5);
  EXPECT_EQ(failed.outcome, RunOutcome::kFailed);
  EXPECT_EQ(failed.failure, "replicas differ: round 1: worker-1 differs in segment 0");
  RunConfig local = FinishedConfig();
  local.sync.update = UpdateRule::kLocal;
  EXPECT_EQ(Summarize(local, status, RunOutcome::kFinished, "", 5).outcome, RunOutcome::kFinished);
}

TEST(StepsDone, IsTheSlowestLiveWorkers) {
  RunStatus status = FinishedStatus();
  status.records.clear();
  status.members[0].state.step = 7;
  EXPECT_EQ(StepsDone(status), 7u);
  status.members[0].state.phase = WorkerPhase::kLost;
  EXPECT_EQ(StepsDone(status), 20u);
  status.members[0].state.phase = WorkerPhase::kExpelled;
  EXPECT_EQ(StepsDone(status), 20u);
}

TEST(Summary, NamesWhoWasExpelled) {
  RunStatus status = FinishedStatus();
  status.members[1].member.name = "worker-1";
  status.members[1].state.phase = WorkerPhase::kExpelled;
  const Summary summary = Summarize(FinishedConfig(), status, RunOutcome::kFinished, "", 5);
  EXPECT_EQ(summary.expelled, std::vector<std::string>{"worker-1"});
  EXPECT_THAT(FormatSummaryJson(summary), testing::HasSubstr("\"worker-1\""));
}

TEST(MergeStatus, AddsTheNewRecordsOnce) {
  RunStatus status = FinishedStatus();
  RunStatus newer;
  newer.records.resize(1);
  newer.records[0].step = 30;
  newer.record_count = 3;
  MergeStatus(newer, &status);
  ASSERT_EQ(status.records.size(), 3u);
  EXPECT_EQ(status.records[1].step, 20u);
  EXPECT_EQ(status.records[2].step, 30u);
  EXPECT_EQ(status.record_count, 3u);
}

class RunFolderTest : public testing::Test {
 protected:
  const TestFolder temporary_;
  const std::string root_ = temporary_.path();
};

TEST_F(RunFolderTest, IsNamedByPresetAndTime) {
  const absl::Time time =
      absl::FromCivil(absl::CivilSecond(2024, 3, 5, 6, 7, 8), absl::LocalTimeZone());
  EXPECT_EQ(RunName(FinishedConfig(), time), "longwave-20240305-060708");
}

TEST_F(RunFolderTest, OpensForResumingWhateverItsSummaryIs) {
  RunConfig config = FinishedConfig();
  config.run.name = "x";
  const std::string path = root_ + "/x", summary_file = path + "/summary.json";
  {
    const auto folder = RunFolder::Create(root_, config, absl::Now());
    ASSERT_TRUE(folder.ok()) << folder.status();
    std::filesystem::create_directories(folder->state_folder("coordinator"));
    std::ofstream(summary_file) << R"({"outcome": "finished"})";  // of the `up` that works there
    const auto second = RunFolder::Open(path);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(second.status().message()),
                testing::HasSubstr(path + "/lock: another process holds this lock"));
  }
  for (const char* const summary :
       {"", "{", "[]", R"({"outcome": 3})", R"({"outcome": ["finished"]})", R"({"rounds": 2})",
        R"({"outcome": "parked"})"}) {
    std::ofstream(summary_file) << summary;
    EXPECT_TRUE(RunFolder::Open(path).ok()) << summary;
  }
  std::ofstream(summary_file) << R"({"outcome": "finished"})";
  EXPECT_EQ(RunFolder::Open(path).status().message(),
            "the run in " + path + " has finished, wanted one that was parked or has failed");
}

// A run's folder of another user, to whom this process belongs for a while.
class UnreadableTest : public RunFolderTest {
 protected:
  UnreadableTest() {
    RunConfig config = FinishedConfig();
    config.run.name = "theirs";
    EXPECT_TRUE(RunFolder::Create(root_, config, absl::Now()).ok());
    std::filesystem::create_directories(path_ + "/state/coordinator");
    std::ofstream(path_ + "/logs/worker-0.log") << "a line\n";
    chmod(root_.c_str(), 0755);
  }
  // `forbid` is what others may not read.
  template <typename Call>
  auto AsAnother(const std::string& forbid, const Call& call) {
    chmod(forbid.c_str(), 0700);
    EXPECT_EQ(seteuid(65534), 0);
    auto result = call();
    EXPECT_EQ(seteuid(0), 0);
    chmod(forbid.c_str(), 0755);
    return result;
  }
  void ExpectDenied(const absl::Status& status, const std::string& path) {
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_EQ(status.message(), absl::StrCat("cannot read ", path, ": Permission denied"));
  }

  const std::string path_ = root_ + "/theirs";
};

TEST_F(UnreadableTest, IsNotCalledMissing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const auto open = [&] { return RunFolder::Open(path_).status(); };
  ExpectDenied(AsAnother(path_, open), path_ + "/config.yaml");
  ExpectDenied(AsAnother(path_ + "/state", open), path_ + "/state/coordinator");
  std::ofstream(path_ + "/summary.json") << "{}";
  ExpectDenied(AsAnother(path_ + "/summary.json", open), path_ + "/summary.json");
  EXPECT_EQ(AsAnother(root_, [&] { return FindRunFolder("theirs", root_); }), path_);
}

TEST_F(UnreadableTest, LogsAreNotCalledEmpty) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const auto print = [&] { return PrintLogs({.run = path_}); };
  ExpectDenied(AsAnother(path_ + "/logs", print), path_ + "/logs");
  ExpectDenied(AsAnother(path_ + "/logs/worker-0.log", print), path_ + "/logs/worker-0.log");
}

TEST_F(RunFolderTest, SaysWhyItCannotBeMade) {
  std::ofstream(root_ + "/file") << "x";
  const auto folder = RunFolder::Create(root_ + "/file", FinishedConfig(), absl::Now());
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace longwave
