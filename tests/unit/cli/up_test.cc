#include "cli/up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/screen.h"
#include "common/config/config.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

class ResolveConfigTest : public testing::Test {
 protected:
  ResolveConfigTest() {
    std::string pattern = testing::TempDir() + "up_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    options_.config_file = folder_ + "/run.yaml";
    std::ofstream(options_.config_file) << "run:\n  steps: 100\n";
  }
  ~ResolveConfigTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  UpOptions options_;
};

TEST_F(ResolveConfigTest, PutsTheCommandLineOverTheFile) {
  std::ofstream(folder_ + "/a text: #1") << "text";
  options_.overrides = {"run.workers=3"};
  options_.name = "mine";
  options_.data = folder_ + "/./a text: #1";
  const auto config = ResolveConfig(options_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->run.steps, 100u);
  EXPECT_EQ(config->run.workers, 3u);
  EXPECT_EQ(config->run.name, "mine");
  EXPECT_EQ(config->data.path, folder_ + "/a text: #1");
  // The children read what was resolved.
  EXPECT_EQ(ParseConfig(FormatConfig(*config), "config.yaml")->data.path, config->data.path);
}

TEST_F(ResolveConfigTest, RefusesDataThatIsNotThere) {
  options_.data = "/no/such/text";
  EXPECT_EQ(ResolveConfig(options_).status().message(),
            "data.path: got /no/such/text, which does not exist; wanted a file, a folder or "
            "compiler-headers");
}

TEST_F(ResolveConfigTest, NamesTheSettingThatIsWrong) {
  options_.overrides = {"run.wrokers=3"};
  EXPECT_THAT(std::string(ResolveConfig(options_).status().message()), HasSubstr("run.wrokers"));
}

TEST(ListenAddress, IsAFreePortUnlessConfigured) {
  RunConfig config = DefaultConfig();
  EXPECT_EQ(ListenAddress(config), "127.0.0.1:0");
  config.cluster.coordinator = "10.0.0.1:7777";
  EXPECT_EQ(ListenAddress(config), "10.0.0.1:7777");
}

TEST(RedrawSequence, GoesBackOverWhatWasDrawnAndErasesTheRest) {
  EXPECT_EQ(RedrawSequence(0, {"a"}), "\ra\033[K\n\033[J");
  EXPECT_EQ(RedrawSequence(3, {"a", "b"}), "\r\033[3Aa\033[K\nb\033[K\n\033[J");
}

}  // namespace
}  // namespace longwave
