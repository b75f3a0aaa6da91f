#include "common/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/config_keys.h"
#include "common/config/gpt_shape.h"
#include "common/config/presets.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

RunConfig Parsed(const std::string& text, const Overrides& overrides = {}) {
  absl::StatusOr<RunConfig> config = ParseConfig(text, "test.yaml", overrides);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : RunConfig();
}

std::vector<fs::path> FilesOf(const char* folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(LONGWAVE_SOURCE_DIR) / folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> ConfigFiles() {
  std::vector<fs::path> files = FilesOf("configs");
  for (fs::path& file : FilesOf("configs/presets")) files.push_back(std::move(file));
  return files;
}

TEST(ConfigFiles, AllLoad) {
  ASSERT_GE(ConfigFiles().size(), 8u);
  for (const fs::path& file : ConfigFiles()) {
    EXPECT_EQ(LoadConfig(file.string()).status(), absl::OkStatus());
  }
}

TEST(Presets, AreTheFilesOfTheirFolder) {
  std::vector<std::string> names;
  for (const fs::path& file : FilesOf("configs/presets")) {
    EXPECT_EQ(file.extension(), ".yaml") << file;
    names.push_back(file.stem().string());
  }
  EXPECT_EQ(PresetNames(), names);
}

TEST(Presets, EachHasALineOfTheMethods) {
  const std::string page = ReadAll(LONGWAVE_SOURCE_DIR "/docs/reference/methods.md");
  std::vector<std::string> names;
  for (size_t at = page.find("\n- `"); at != std::string::npos; at = page.find("\n- `", at + 1)) {
    names.push_back(page.substr(at + 4, page.find('`', at + 4) - at - 4));
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(PresetNames()));
}

TEST(Presets, AreCompiledInAsTheyStandInTheFiles) {
  for (const Preset& preset : Presets()) {
    EXPECT_EQ(preset.text, ReadAll(fs::path(LONGWAVE_SOURCE_DIR) / preset.file)) << preset.file;
  }
}

TEST(Presets, NameThemselves) {
  for (const Preset& preset : Presets()) {
    EXPECT_EQ(Parsed(std::string(preset.text)).run.preset, preset.name);
  }
}

TEST(Presets, SetOnlyThePipelineTheInnerOptimizerAndHowOftenAWorkerWritesItDown) {
  const RunConfig defaults = DefaultConfig();
  for (const std::string& name : PresetNames()) {
    RunConfig config = Parsed("{}", {"preset=" + name});
    config.run.preset = defaults.run.preset;
    config.train.optimizer = defaults.train.optimizer;
    config.train.learning_rate = defaults.train.learning_rate;
    config.sync = defaults.sync;
    config.cluster.checkpoint_rounds = defaults.cluster.checkpoint_rounds;
    EXPECT_EQ(config, defaults) << name;
  }
}

// A checkpoint holds the whole residual and the optimizer.
TEST(Presets, WriteNoCheckpointMoreOftenThanEveryTenSteps) {
  for (const std::string& name : PresetNames()) {
    const RunConfig config = Parsed("{}", {"preset=" + name});
    if (!CanCatchUp(config)) continue;  // there are none
    EXPECT_GE(config.sync.inner_steps * config.cluster.checkpoint_rounds, 10u) << name;
  }
}

// A user of the tutorial edits three values, and the rest is complete.
TEST(TwoBoxes, IsComplete) {
  const fs::path file = fs::path(LONGWAVE_SOURCE_DIR) / "configs/two-boxes.yaml";
  const auto config = LoadConfig(file.string());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->run.workers, 2u);
  EXPECT_EQ(config->run.shards, 1u);
  EXPECT_EQ(FewRoundsSentence(*config), "");
  EXPECT_EQ(config->cluster.coordinator, "10.0.0.5:7070");
  EXPECT_EQ(config->cluster.shard_host, "10.0.0.5");
  EXPECT_GE(config->cluster.start_timeout_s, 600);
  EXPECT_NE(config->data.path, DefaultConfig().data.path);
  for (const char* section : {"run:", "model:", "data:", "train:", "sync:", "cluster:"})
    EXPECT_THAT(ReadAll(file), testing::HasSubstr(section));
  // Every shard's port that the pages tell people to open is named.
  for (const char* page : {"docs/tutorials/two-boxes.md", "docs/how-to/several-machines.md"}) {
    const std::string text = ReadAll(fs::path(LONGWAVE_SOURCE_DIR) / page);
    for (size_t at = text.find("--role=shard "); at != std::string::npos;
         at = text.find("--role=shard ", at + 1)) {
      EXPECT_THAT(text.substr(at, 200), testing::ContainsRegex("--listen tcp://[0-9.]+:[1-9]"))
          << page;
    }
  }
}

TEST(Presets, LongwaveIsTheBuiltInDefault) {
  EXPECT_EQ(Parsed("{}"), DefaultConfig());
  EXPECT_EQ(Parsed("run: {preset: longwave}"), DefaultConfig());
}

TEST(Presets, DecoupledLetsReplicasDiffer) {
  EXPECT_FALSE(PromisesEqualReplicas(Parsed("{}", {"preset=decoupled"})));
  EXPECT_TRUE(PromisesEqualReplicas(Parsed("{}", {"preset=diloco"})));
}

TEST(PresetPrecedence, PresetOverDefaults) {
  const RunConfig config = Parsed("run: {preset: diloco}");
  EXPECT_EQ(config.sync.update, UpdateRule::kNesterov);
  EXPECT_EQ(config.sync.eta, 0.7);
  EXPECT_EQ(config.sync.mu, 0.9);
  EXPECT_EQ(config.sync.up.selection, Selection::kAll);
}

TEST(PresetPrecedence, OverrideOverFileOverPresetWhateverTheOrder) {
  const struct {
    const char* text;
    Overrides overrides;
    double eta;
  } cases[] = {{"sync: {eta: 0.5}\nrun: {preset: diloco}", {}, 0.5},
               {"sync: {eta: 0.5}", {"sync.eta=0.25"}, 0.25},
               {"{}", {"sync.eta=0.25", "sync.eta=0.125"}, 0.125},  // the later one
               {"{}", {"sync.eta=0.25", "preset=diloco"}, 0.25}};
  for (const auto& each : cases) {
    EXPECT_EQ(Parsed(each.text, each.overrides).sync.eta, each.eta) << each.text;
  }
}

TEST(PresetPrecedence, OverriddenPresetStaysUnderTheFilesKeys) {
  const RunConfig config =
      Parsed("run: {preset: ddp, steps: 170}\nsync: {rho: 0.5}", {"run.preset=diloco"});
  EXPECT_EQ(config.run.preset, "diloco");
  EXPECT_EQ(config.sync.update, UpdateRule::kNesterov);
  EXPECT_EQ(config.sync.rho, 0.5);
  EXPECT_EQ(config.run.steps, 170u);
}

TEST(PresetPrecedence, PresetIsShortForRunPreset) {
  EXPECT_EQ(Parsed("{}", {"preset=ddp"}), Parsed("{}", {"run.preset=ddp"}));
}

TEST(ParseConfig, TakesDottedKeysAndSectionsAlike) {
  const RunConfig nested = Parsed("sync:\n  up:\n    k: 32\n    codec: int8\n");
  EXPECT_EQ(nested.sync.up.k, 32);
  EXPECT_EQ(Parsed("sync.up: {k: 32}\nsync.up.codec: int8"), nested);
}

TEST(ParseConfig, TakesEmptyAndCommentedSections) {
  EXPECT_EQ(Parsed("# nothing but this\nsync: {}\n"), DefaultConfig());
}

TEST(ParseConfig, KeepsTextAsWritten) {
  EXPECT_EQ(Parsed("data: {path: \"a \\\"b\\\" #c\"}").data.path, "a \"b\" #c");
  EXPECT_EQ(Parsed("{}", {"data.path=x=y #z"}).data.path, "x=y #z");
  EXPECT_EQ(Parsed("run: {name: 0017}").run.name, "0017");
}

TEST(ParseConfig, ReadsTheWholeRangeOfSeeds) {
  EXPECT_EQ(Parsed("run: {seed: 18446744073709551615}").run.seed, ~uint64_t{0});
}

TEST(ParseConfig, ReadsWholeNumbersAsOtherProgramsWriteThem) {
  for (const char* million : {"1000000", "1e6", "1e+06", "1000000.0", "\"1E6\""}) {
    EXPECT_EQ(Parsed(absl::StrCat("run: {steps: ", million, "}")).run.steps, 1'000'000u) << million;
  }
  EXPECT_EQ(Parsed("{}", {"run.steps=1e6"}).run.steps, 1'000'000u);
}

TEST(FormatConfig, ReadsBackToTheSameForEveryFileAndPreset) {
  std::vector<RunConfig> configs;
  for (const fs::path& file : ConfigFiles()) configs.push_back(*LoadConfig(file.string()));
  RunConfig odd = DefaultConfig();
  odd.data.path = "C:\\data \"π\" # {no} comment: ";
  odd.run.seed = ~uint64_t{0};
  odd.train.learning_rate = 0.1 + 0.2;
  odd.train.epsilon = 1e-16;
  configs.push_back(odd);
  for (const RunConfig& config : configs) {
    const std::string text = FormatConfig(config);
    EXPECT_EQ(Parsed(text), config) << text;
    EXPECT_EQ(FormatConfig(Parsed(text)), text);
  }
}

TEST(FormatConfig, WritesEveryKey) {
  const std::string text = FormatConfig(DefaultConfig());
  const size_t sections = 8 + 2;  // and sync.up, sync.down
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), ConfigKeys().size() + sections);
  EXPECT_THAT(text, testing::HasSubstr("\n  up:\n    selection: topk\n    k: 116\n"));
}

TEST(BindingSettings, AreEverythingThatDecidesWhatTheRunComputes) {
  // A free one here is a decision; a new key binds.
  const std::vector<std::string> free = {"run.preset",
                                         "run.name",
                                         "run.workers",
                                         "run.validate_every",
                                         "run.validation_batches",
                                         "data.path",
                                         "data.validation_path",
                                         "train.micro_batches",
                                         "train.activation_checkpoints",
                                         "train.threads",
                                         "train.device",
                                         "train.autocast",
                                         "sync.inner_steps_min",
                                         "sync.inner_steps_max",
                                         "sync.target_share",
                                         "sync.up.k",
                                         "sync.up.codec"};
  const std::string text = BindingSettings(DefaultConfig());
  for (const ConfigKey& key : ConfigKeys()) {
    const std::string section = key.name.substr(0, key.name.find('.'));
    const bool is_free = section == "cluster" || section == "metrics" || section == "security" ||
                         std::find(free.begin(), free.end(), key.name) != free.end();
    EXPECT_EQ(("\n" + text).find("\n" + key.name + ": ") == std::string::npos, is_free) << key.name;
  }
}

// Runs with a fixed interval have the settings of older versions, whose folders go on.
TEST(BindingSettings, HaveTheBoundsOfAFittedInterval) {
  RunConfig config = DefaultConfig();
  config.sync.inner_steps = 0;
  const std::string text = BindingSettings(config);
  EXPECT_THAT(text, testing::HasSubstr("\nsync.inner_steps: auto\nsync.inner_steps_min: 2\n"
                                       "sync.inner_steps_max: 100\nsync.beta: "));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("target_share")));
}

// A shard's limits of a worker: the worker's own values are at most the coordinator's.
TEST(BindingSettings, LimitTheBatchOfAWorker) {
  EXPECT_THAT(SettingsAtMost(), testing::ElementsAre("train.batch"));
  RunConfig config = DefaultConfig();
  config.train.batch /= 2;
  EXPECT_NE(BindingSettings(config), BindingSettings(DefaultConfig()));
  EXPECT_LT(ContributionWeightMax(config), ContributionWeightMax(DefaultConfig()));
}

TEST(BindingSettings, NameTheArithmetic) {
  EXPECT_THAT(BindingSettings(DefaultConfig()),
              testing::HasSubstr(absl::StrCat("\narithmetic version: ", kArithmeticVersion, "\n")));
}

TEST(BindingSettings, AreEqualOnlyIfTheSettingsAre) {
  RunConfig config = DefaultConfig();
  config.train.threads = 7;
  config.cluster.coordinator = "elsewhere:1";
  EXPECT_EQ(BindingSettings(config), BindingSettings(DefaultConfig()));
  config.train.learning_rate = std::nextafter(config.train.learning_rate, 1);
  EXPECT_NE(BindingSettings(config), BindingSettings(DefaultConfig()));
}

TEST(BindingSettings, LeaveTheCodecToTheWorkerAndTheKWhereItNamesItsOwnIndices) {
  RunConfig config = DefaultConfig();
  config.sync.up.k = 32;
  config.sync.up.codec = ValueCodec::kInt4;
  EXPECT_EQ(BindingSettings(config), BindingSettings(DefaultConfig()));
  for (const Selection selection : {Selection::kRandom, Selection::kStride}) {
    config.sync.up.selection = selection;
    RunConfig other = config;
    other.sync.up.codec = ValueCodec::kBf16;
    EXPECT_EQ(BindingSettings(config), BindingSettings(other));
    other.sync.up.k = 64;
    EXPECT_NE(BindingSettings(config), BindingSettings(other));
  }
}

TEST(ParseConfig, ASizeGivesWhatTheConfigurationDoesNot) {
  const RunConfig small = Parsed("model: {size: gpt2-124m}");
  EXPECT_EQ(GptParameterCount(small.model), 124'439'808);
  EXPECT_EQ(GptParameterCount(Parsed("{}", {"model.size=gpt2-350m"}).model), 354'823'168);
  // Settings beside the size win over it in any order, and the configuration reads back as written.
  const RunConfig short_one = Parsed("model: {context: 256, size: gpt2-124m}", {"model.heads=6"});
  EXPECT_EQ(short_one.model.context, 256u);
  EXPECT_EQ(short_one.model.heads, 6u);
  EXPECT_EQ(short_one.model.layers, 12u);
  EXPECT_EQ(Parsed(FormatConfig(short_one)), short_one);
}

TEST(ContributionWeightMax, IsTheTokensOfTheLongestSync) {
  const auto of = [](const std::vector<std::string>& set) {
    return ContributionWeightMax(*ParseConfig("{}", "x.yaml", set));
  };
  EXPECT_EQ(of({}), 30u * 8 * 64);
  EXPECT_EQ(of({"preset=ddp", "train.batch=3"}), 1u * 3 * 64);
  EXPECT_EQ(of({"sync.fragments=2"}), 45u * 8 * 64);  // the last round's first fragment
}

TEST(LoadConfig, SaysWhichFileIsMissing) {
  EXPECT_EQ(LoadConfig("/nonexistent/run.yaml").status(),
            absl::NotFoundError(
                "/nonexistent/run.yaml: No such file or directory, wanted a configuration file"));
}

TEST(LoadConfig, RefusesAFolder) {
  const absl::Status status = LoadConfig(LONGWAVE_SOURCE_DIR "/configs").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("Is a directory"));
}

TEST(LoadConfig, RefusesAFileOfMoreThanAMebibyte) {
  const fs::path file = fs::path(testing::TempDir()) / "longwave_large_config.yaml";
  std::ofstream(file) << std::string((1 << 20) + 1, '#');
  const absl::Status status = LoadConfig(file.string()).status();
  EXPECT_EQ(status, absl::InvalidArgumentError(
                        file.string() + ": larger than 1048576 bytes, wanted a configuration"));
  fs::remove(file);
}

TEST(ConfigReference, IsDocsConfiguration) {
  EXPECT_EQ(ReadAll(LONGWAVE_SOURCE_DIR "/docs/reference/configuration.md"), ConfigReference())
      << "run build/bin/longwave-config-reference > docs/reference/configuration.md";
}

}  // namespace
}  // namespace longwave
