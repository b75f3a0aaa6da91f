#include "cli/up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "cli/run_folder.h"
#include "cli/screen.h"
#include "common/config/config.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

class ResolveConfigTest : public testing::Test {
 protected:
  ResolveConfigTest() {
    options_.config_file = folder_ + "/run.yaml";
    std::ofstream(options_.config_file) << "run:\n  steps: 100\n";
  }

  const TestFolder temporary_;
  const std::string folder_ = temporary_.path();
  UpOptions options_;
  DataReport data_;
};

TEST_F(ResolveConfigTest, PutsTheCommandLineOverTheFile) {
  std::ofstream(folder_ + "/a text: #1") << "xxx\n" << std::string(19'996, 'x');
  options_.overrides = {"run.workers=3"};
  options_.name = "mine";
  options_.data = folder_ + "/./a text: #1";
  const auto config = ResolveConfig(options_, &data_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->run.steps, 100u);
  EXPECT_EQ(config->run.workers, 3u);
  EXPECT_EQ(config->run.name, "mine");
  EXPECT_EQ(config->data.path, folder_ + "/a text: #1");
  EXPECT_THAT(data_.lines,
              ::testing::ElementsAre("data      text, 1 file, 18.0 kB to train on, begins xxx",
                                     "held out  2.0 kB at the end"));
  // The child processes read the resolved path.
  EXPECT_EQ(ParseConfig(FormatConfig(*config), "config.yaml")->data.path, config->data.path);
}

TEST_F(ResolveConfigTest, TestsKeysAgainstTheDataOfTheCommandLine) {
  options_.data = folder_ + "/tokens.bin";
  std::ofstream(*options_.data) << std::string(20'000, '\7');
  options_.overrides = {"data.kind=tokens", "model.vocabulary=16384"};
  const auto config = ResolveConfig(options_, &data_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->data.path, *options_.data);
  options_.data = "compiler-headers";
  EXPECT_THAT(std::string(ResolveConfig(options_, &data_).status().message()),
              HasSubstr("data.path: got compiler-headers, which are text"));
}

TEST_F(ResolveConfigTest, RefusesDataThatIsNotThere) {
  options_.data = "/no/such/text";
  EXPECT_EQ(ResolveConfig(options_, &data_).status().message(),
            "data: /no/such/text does not exist; wanted a file, a folder or compiler-headers");
  options_.data = "";
  EXPECT_EQ(ResolveConfig(options_, &data_).status().message(),
            "--data: got an empty path, wanted a file, a folder or compiler-headers");
}

TEST_F(ResolveConfigTest, RefusesDataThatIsTooShort) {
  options_.data = folder_ + "/text";
  std::ofstream(*options_.data) << "short";
  EXPECT_THAT(std::string(ResolveConfig(options_, &data_).status().message()),
              HasSubstr(*options_.data + " leaves 4 bytes to the training part"));
}

TEST_F(ResolveConfigTest, RefusesMoreShardsThanTheModelHasSegments) {
  options_.data = folder_ + "/text";
  std::ofstream(*options_.data) << std::string(20'000, 'x');
  options_.overrides = {"run.shards=64", "model.d_model=32", "model.layers=1", "model.heads=2",
                        "model.context=32"};
  EXPECT_THAT(std::string(ResolveConfig(options_, &data_).status().message()),
              HasSubstr("run.shards: got 64"));
}

TEST_F(ResolveConfigTest, LeavesModelAndDataToTheWorkersOfACommand) {
  options_.worker_command = "python train.py";
  auto config = ResolveConfig(options_, &data_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.kind, "external");
  EXPECT_EQ(config->run.start, "member");
  EXPECT_EQ(config->run.steps, 100u);
  options_.config_file = "";
  options_.overrides = {"run.start=seed"};
  config = ResolveConfig(options_, &data_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->run.start, "seed");
  options_.data = folder_;
  EXPECT_THAT(std::string(ResolveConfig(options_, &data_).status().message()),
              HasSubstr("--data: got one beside --worker-command"));
  options_.data.reset();
  options_.start_from = folder_;
  EXPECT_THAT(std::string(ResolveConfig(options_, &data_).status().message()),
              HasSubstr("--start-from: got one beside --worker-command"));
}

TEST_F(ResolveConfigTest, RefusesARunWithoutStateThatBeginsWithAMembersWeights) {
  options_.worker_command = "python train.py";
  options_.no_state = true;
  EXPECT_THAT(std::string(ResolveConfig(options_, &data_).status().message()),
              HasSubstr("--no-state: got one with run.start: member"));
  options_.overrides = {"run.start=seed"};
  EXPECT_TRUE(ResolveConfig(options_, &data_).ok());
}

TEST_F(ResolveConfigTest, RefusesAPathThatNoConfigurationCanHave) {
  options_.data = folder_ + "/caf\xe9";
  std::ofstream(*options_.data) << std::string(20'000, 'x');
  EXPECT_THAT(std::string(ResolveConfig(options_, &data_).status().message()),
              HasSubstr("wanted one of UTF-8 text without control characters"));
}

TEST_F(ResolveConfigTest, WantsACommandForAModelThatIsTheWorkers) {
  options_.overrides = {"model.kind=external"};
  EXPECT_THAT(std::string(ResolveConfig(options_, &data_).status().message()),
              HasSubstr("model.kind: got external"));
  options_.config_file = "";
  EXPECT_THAT(std::string(ResolveConfig(options_, &data_).status().message()),
              HasSubstr("got no configuration"));
}

TEST_F(ResolveConfigTest, NamesTheSettingThatIsWrong) {
  options_.overrides = {"run.wrokers=3"};
  EXPECT_THAT(std::string(ResolveConfig(options_, &data_).status().message()),
              HasSubstr("run.wrokers"));
}

class RunFolderCreate : public ResolveConfigTest {
 protected:
  absl::StatusOr<RunFolder> Create(const std::string& name) {
    RunConfig config = DefaultConfig();
    config.run.name = name;
    return RunFolder::Create(folder_ + "/runs", config, absl::UnixEpoch());
  }
};

TEST_F(RunFolderCreate, OfANameIsTakenOnce) {
  const auto first = Create("mine");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->path(), folder_ + "/runs/mine");
  EXPECT_TRUE(std::filesystem::is_directory(folder_ + "/runs/mine/logs"));
  EXPECT_EQ(Create("mine").status(),
            absl::AlreadyExistsError("the run folder " + first->path() +
                                     " has something in it; wanted a new name (--name) or an "
                                     "empty folder"));
}

TEST_F(RunFolderCreate, MayBeThereIfEmpty) {
  std::filesystem::create_directories(folder_ + "/runs/mine");
  EXPECT_TRUE(Create("mine").ok());
}

TEST_F(RunFolderCreate, OfTwoRunsAtOnceBelongsToOne) {
  std::vector<int> taken(8, 0);
  std::vector<std::jthread> threads;
  for (int& result : taken) {
    threads.emplace_back([this, &result] { result = Create("mine").ok() ? 1 : 0; });
  }
  threads.clear();
  EXPECT_EQ(std::accumulate(taken.begin(), taken.end(), 0), 1);
}

TEST_F(RunFolderCreate, WithoutANameGivesWayToThoseOfTheSameSecond) {
  const auto first = Create(""), second = Create(""), third = Create("");
  ASSERT_TRUE(first.ok() && second.ok() && third.ok()) << third.status();
  EXPECT_EQ(second->path(), first->path() + "-2");
  EXPECT_EQ(third->path(), first->path() + "-3");
}

TEST(ListenAddress, IsAFreePortUnlessConfigured) {
  RunConfig config = DefaultConfig();
  EXPECT_EQ(ListenAddress(config), "127.0.0.1:0");
  config.cluster.coordinator = "10.0.0.1:7777";
  EXPECT_EQ(ListenAddress(config), "10.0.0.1:7777");
}

TEST(Screen, IsAsWideAsTheTerminalHoweverNarrowThatIs) {
  int leader = -1, follower = -1;
  winsize size = {.ws_row = 24, .ws_col = 25};
  ASSERT_EQ(openpty(&leader, &follower, nullptr, nullptr, &size), 0);
  setenv("TERM", "xterm", 1);
  EXPECT_TRUE(Screen::MayDraw(follower));
  {
    const Screen screen(follower);
    EXPECT_EQ(screen.style().width, 25u);
    size.ws_col = 7;
    ioctl(leader, TIOCSWINSZ, &size);
    EXPECT_EQ(screen.style().width, 7u);
  }
  EXPECT_FALSE(Screen::MayDraw(follower));
  close(leader);
  close(follower);
}

TEST(RedrawSequence, GoesBackOverWhatWasDrawnAndErasesTheRest) {
  EXPECT_EQ(RedrawSequence(0, {"a"}), "\ra\033[K\n\033[J");
  EXPECT_EQ(RedrawSequence(3, {"a", "b"}), "\r\033[3Aa\033[K\nb\033[K\n\033[J");
}

}  // namespace
}  // namespace longwave
