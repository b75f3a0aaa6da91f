#include "worker/weights/write_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "tests/support/test_folder.h"
#include "worker/weights/gpt2_config.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class WriteModelTest : public testing::Test {
 protected:
  void SetUp() override {
    config_.model.d_model = 8;
    config_.model.layers = 1;
    config_.model.heads = 2;
    config_.model.context = 4;
  }

  void Write(const char* name) {
    const Manifest manifest = *GptManifest(config_.model);
    const Layout layout = *Layout::Create(manifest, LayoutOptions{});
    const std::vector<float> theta(layout.parameter_count());
    ASSERT_TRUE(
        WriteModel((folder_ / name).string(), config_, manifest, layout, theta.data(), 3).ok());
  }
  // The error of a config.json with one value changed.
  std::string Refusal(const char* name, const nlohmann::json& value) {
    nlohmann::json config = nlohmann::json::parse(Gpt2Config(config_.model));
    config[name] = value;
    std::ofstream(folder_ / "config.json") << config;
    return std::string(ReadGpt2Config(folder_).status().message());
  }

  const TestFolder temporary_;
  const fs::path folder_ = temporary_.path();
  RunConfig config_ = DefaultConfig();
};

TEST_F(WriteModelTest, DescribesWhatTransformersAskForByName) {
  Write("model.safetensors");
  const auto model = ReadGpt2Config(folder_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(*model, config_.model);
  std::ifstream file(folder_ / "config.json");
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["vocab_size"], 256);
  EXPECT_EQ(json["activation_function"], "gelu");
  EXPECT_EQ(json["n_positions"], 4);
}

// The folder's config.json may be a user's, so a weights file of another name gets none.
TEST_F(WriteModelTest, WritesNothingBesideAFileOfAnotherName) {
  Write("start.safetensors");
  EXPECT_FALSE(fs::exists(folder_ / "config.json"));
  EXPECT_THAT(std::string(ReadGpt2Config(folder_).status().message()),
              HasSubstr("config.json, which describes the weights; wanted the folder of a run"));
}

TEST_F(WriteModelTest, WhatIsLeftOutIsTheUsual) {
  nlohmann::json config = nlohmann::json::parse(Gpt2Config(config_.model));
  config.erase("tie_word_embeddings");
  std::ofstream(folder_ / "config.json") << config;
  EXPECT_TRUE(ReadGpt2Config(folder_).ok());
  EXPECT_THAT(Refusal("tie_word_embeddings", false), HasSubstr("got false, wanted true"));
  EXPECT_THAT(Refusal("scale_attn_weights", false), HasSubstr("got false, wanted true"));
}

TEST_F(WriteModelTest, ADescriptionOfSomethingElseIsNotReplacedUnnoticed) {
  const std::string place = (folder_ / "model.safetensors").string();
  EXPECT_TRUE(CheckPlace(place, config_).ok());
  Write("model.safetensors");
  EXPECT_TRUE(CheckPlace(place, config_).ok()) << "its own is written again";
  std::ofstream(folder_ / "config.json") << R"({"name": "of a web page"})";
  EXPECT_EQ(CheckPlace(place, config_).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(CheckPlace((folder_ / "other.safetensors").string(), config_).ok());
}

TEST_F(WriteModelTest, OtherModelsAreRefusedByWhatTheyCompute) {
  EXPECT_THAT(Refusal("vocab_size", -1), HasSubstr("vocab_size: got -1, wanted a whole number"));
  EXPECT_THAT(Refusal("activation_function", "gelu_new"),
              HasSubstr("activation_function: got \"gelu_new\", wanted \"gelu\""));
  EXPECT_THAT(Refusal("n_embd", -1), HasSubstr("n_embd: got -1, wanted a whole number"));
  EXPECT_THAT(Refusal("n_head", nullptr), HasSubstr("n_head: got null, wanted a whole number"));
  EXPECT_THAT(
      Refusal("n_layer", 4'000'000'000),
      HasSubstr(
          "config.json:1: model.layers: got 4000000000, wanted a whole number from 1 to 256"));
  EXPECT_THAT(Refusal("n_head", 0), HasSubstr("model.heads: got 0, wanted a whole number from 1"));
  const nlohmann::json deep = nlohmann::json::parse(std::string(100, '[') + std::string(100, ']'));
  EXPECT_THAT(Refusal("n_inner", deep), HasSubstr("n_inner: got [[[["));
  std::ofstream(folder_ / "config.json") << "[]";
  EXPECT_THAT(std::string(ReadGpt2Config(folder_).status().message()),
              HasSubstr("it is no JSON object"));
}

}  // namespace
}  // namespace longwave
