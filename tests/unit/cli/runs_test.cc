#include "cli/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/config/config.h"
#include "server/store/posix_file_system.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class RunsTest : public testing::Test {
 protected:
  std::string Make(const std::string& name, int hours_old) const {
    const std::string folder = root_ + "/" + name;
    std::filesystem::create_directories(folder);
    RunConfig config = DefaultConfig();
    config.run.steps = 20 * config.sync.inner_steps;
    Write(folder + "/config.yaml", FormatConfig(config));
    Write(folder + "/metrics.jsonl",
          "{\"round\": 0, \"train_loss\": 3.5, \"validation_loss\": 3.25, \"hash\": \"00ff\"}\n"
          "{\"round\": 1, \"train_loss\": 2.5, \"validation_loss\": null, \"hash\": \"1\"}\n"
          "a torn line\n{\"round\": 2, \"tra");
    std::filesystem::last_write_time(
        folder + "/metrics.jsonl",
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours_old));
    return folder;
  }
  static void Write(const std::string& file, const std::string& text) {
    std::ofstream(file) << text;
  }

  const TestFolder temporary_;
  const std::string root_ = temporary_.path();
};

TEST_F(RunsTest, AreListedWithTheLastOneFirst) {
  Write(Make("finished", 2) + "/summary.json", "{\"outcome\": \"finished\"}");
  Make("killed", 3);
  const std::string running = Make("running", 1);
  const auto lock = MakePosixFileSystem()->Lock(running + "/lock");
  Write(running + "/summary.json", "{\"outcome\": \"parked\"}");  // of before
  std::filesystem::create_directory(root_ + "/no run");
  const auto lines = RunLines(root_);
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_THAT(*lines,
              testing::ElementsAre(MatchesRegex("run +state +round +loss +validation +last record"),
                                   MatchesRegex("running +running +2/20 +2.500 +3.250 +20.*:.."),
                                   MatchesRegex("finished +finished +2/20 +2.500 +3.250 +20.*:.."),
                                   MatchesRegex("killed +killed +2/20 +2.500 +3.250 +20.*:..")));
}

TEST_F(RunsTest, AreSaidToBeMissingWithTheirFolder) {
  EXPECT_THAT(std::string(RunLines(root_ + "/none").status().message()),
              HasSubstr("/none: No such file or directory, wanted the folder of runs"));
}

TEST_F(RunsTest, ThatRunAreFoundByNameWithAddressAndCredentials) {
  const std::string folder = Make("mine", 0);
  const auto lock = MakePosixFileSystem()->Lock(folder + "/lock");
  Write(folder + "/coordinator-address", "127.0.0.1:7\n");
  auto target = FindTarget({.address = "mine"}, root_);
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->address, "127.0.0.1:7");
  EXPECT_EQ(target->security, "");
  std::filesystem::create_directories(folder + "/security/operator");
  EXPECT_EQ(FindTarget({.address = folder + "/"}, "elsewhere")->security,
            folder + "/security/operator");
  EXPECT_EQ(FindTarget({.address = "mine", .security = "own"}, root_)->security, "own");
  // An address stands for itself.
  EXPECT_EQ(FindTarget({.address = "host:1"}, root_)->address, "host:1");
}

TEST_F(RunsTest, ThatDoNotRunAreNamedWithWhatHasBecomeOfThem) {
  const std::string folder = Make("mine", 0);
  Write(folder + "/summary.json", "{\"outcome\": \"parked\"}");
  EXPECT_EQ(FindTarget({.address = "mine"}, root_).status().message(),
            "the run in " + folder +
                " does not run here (parked), wanted one that does, or "
                "host:port");
  // Of an `up` that was killed; the port may be another's.
  Write(folder + "/coordinator-address", "127.0.0.1:7\n");
  Write(folder + "/lock", "");
  EXPECT_FALSE(FindTarget({.address = "mine"}, root_).ok());
  // Of one that has just been started.
  std::filesystem::remove(folder + "/coordinator-address");
  const auto lock = MakePosixFileSystem()->Lock(folder + "/lock");
  EXPECT_THAT(std::string(FindTarget({.address = "mine"}, root_).status().message()),
              HasSubstr("/coordinator-address: No such file"));
  EXPECT_EQ(FindTarget({.address = "other"}, root_).status().message(),
            "got other, wanted host:port, or the folder or name of a run of `longwave up`");
}

TEST_F(RunsTest, HaveTheirRecordsPrintedAsCsv) {
  testing::internal::CaptureStdout();
  const absl::Status printed = PrintMetrics(Make("mine", 0));
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "round,train_loss,validation_loss,hash\n0,3.5,3.25,00ff\n1,2.5,,1\n");
  EXPECT_TRUE(printed.ok()) << printed;
  EXPECT_THAT(std::string(PrintMetrics(root_).message()), HasSubstr("got no rounds in "));
}

}  // namespace
}  // namespace longwave
