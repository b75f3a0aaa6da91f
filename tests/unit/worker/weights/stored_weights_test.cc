#include "worker/weights/stored_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "tests/support/test_folder.h"
#include "worker/weights/gpt2_config.h"
#include "worker/weights/safetensors.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tensor's bytes under a name.
struct Stored {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

template <typename Number>
std::string BytesOf(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

// A file as transformers write it of a model with one embedding and one attention.
class StoredWeightsTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::vector<Stored>& tensors) const {
    nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
    std::string data;
    for (const Stored& tensor : tensors) {
      header[tensor.name] = {{"dtype", tensor.dtype},
                             {"shape", tensor.shape},
                             {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
    const std::string text = header.dump();
    const uint64_t size = text.size();
    std::ofstream file(folder_ + "/" + name, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&size), sizeof(size)) << text << data;
  }
  absl::StatusOr<std::vector<float>> Read(const std::string& name = "") const {
    return ReadWeights(folder_ + name, manifest_, layout_);
  }
  std::string Refusal(const std::string& name = "") const {
    return std::string(Read(name).status().message());
  }

  const TestFolder temporary_;
  const std::string folder_ = temporary_.path();
  const std::string file_ = "model.safetensors";
  const Manifest manifest_{{{"wte.weight", {2, 2}}, {"h.0.attn.c_attn.bias", {2}}}};
  const Layout layout_ = *Layout::Create(manifest_, {});
  const Stored embedding_ = {"transformer.wte.weight", "F32", {2, 2}, BytesOf<float>({1, 2, 3, 4})};
  const Stored bias_ = {"transformer.h.0.attn.c_attn.bias", "F32", {2}, BytesOf<float>({5, 6})};
};

TEST_F(StoredWeightsTest, HaveTransformersNamesItsHeadAndItsBuffers) {
  const Stored mask = {"transformer.h.0.attn.bias", "BOOL", {1, 1, 2, 2}, std::string(4, '\1')};
  const Stored masked = {"transformer.h.0.attn.masked_bias", "F32", {}, BytesOf<float>({-1e4f})};
  Stored head = embedding_;
  head.name = "lm_head.weight";
  Write(file_, {head, bias_, mask, masked, embedding_});
  EXPECT_THAT(*Read(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(*Read("/" + file_), ElementsAre(1, 2, 3, 4, 5, 6));
  head.bytes[0] ^= 1;
  Write(file_, {head, bias_, embedding_});
  EXPECT_THAT(Refusal(), HasSubstr("tensor lm_head.weight: got a head of its own"));
  Write(file_, {bias_, embedding_, {"score.weight", "F32", {1}, BytesOf<float>({1})}});
  EXPECT_THAT(Refusal(), HasSubstr("got tensor score.weight, wanted those of the model alone"));
  Stored again = embedding_;
  again.name = "wte.weight";
  Write(file_, {bias_, embedding_, again});
  EXPECT_THAT(Refusal(), HasSubstr("wte.weight is there twice"));
  Write(file_, {embedding_});
  EXPECT_THAT(Refusal(), HasSubstr("has no tensor h.0.attn.c_attn.bias"));
}

TEST_F(StoredWeightsTest, MayHaveSixteenBits) {
  Stored embedding = embedding_, bias = bias_;
  embedding.dtype = "BF16";
  embedding.bytes = BytesOf<uint16_t>({0x3f80, 0xc049, 0x0001, 0x8000});
  bias.dtype = "F16";
  bias.bytes = BytesOf<uint16_t>({0x3555, 0x8001});
  Write(file_, {embedding, bias});
  EXPECT_THAT(*Read(), ElementsAre(1.0f, -3.140625f, std::ldexp(1.0f, -133), -0.0f,
                                   std::ldexp(0x555 + 0.0f, -12), -std::ldexp(1.0f, -24)));
  bias.bytes = BytesOf<uint16_t>({0x7bff, 0x0400});
  Write(file_, {embedding, bias});
  EXPECT_EQ((*Read())[4], 65504.0f);
  EXPECT_EQ((*Read())[5], std::ldexp(1.0f, -14));
  bias.dtype = "F64";
  Write(file_, {embedding, bias});
  EXPECT_THAT(Refusal(), HasSubstr("tensor h.0.attn.c_attn.bias: got {"));
}

TEST_F(StoredWeightsTest, AreFinite) {
  for (const auto& [dtype, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"F32", BytesOf<float>({1, std::numeric_limits<float>::quiet_NaN()})},
           {"F32", BytesOf<float>({1, -std::numeric_limits<float>::infinity()})},
           {"F16", BytesOf<uint16_t>({0x3c00, 0x7c00})},
           {"F16", BytesOf<uint16_t>({0x3c00, 0xfe00})},
           {"BF16", BytesOf<uint16_t>({0x3f80, 0x7fc0})}}) {
    Write(file_, {embedding_, {"h.0.attn.c_attn.bias", dtype, {2}, bytes}});
    EXPECT_THAT(Refusal(), HasSubstr("tensor h.0.attn.c_attn.bias: element 1 is ")) << dtype;
  }
}

TEST_F(StoredWeightsTest, MayBeInSeveralFiles) {
  Write("model-00001-of-00002.safetensors", {embedding_});
  Write("model-00002-of-00002.safetensors", {bias_});
  const auto index = [&](const std::string& second) {
    std::ofstream(folder_ + "/model.safetensors.index.json") << nlohmann::json{
        {"weight_map",
         {{embedding_.name, "model-00001-of-00002.safetensors"}, {bias_.name, second}}}};
  };
  index("model-00002-of-00002.safetensors");
  EXPECT_THAT(*Read(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(*Read("/model.safetensors.index.json"), ElementsAre(1, 2, 3, 4, 5, 6));
  index("model-00003-of-00002.safetensors");
  EXPECT_EQ(Read().status().code(), absl::StatusCode::kNotFound);
  index("../elsewhere");
  EXPECT_THAT(Refusal(), HasSubstr("wanted the name of a file beside the index"));
  std::ofstream(folder_ + "/model.safetensors.index.json") << "[]";
  EXPECT_THAT(Refusal(), HasSubstr("got no index of safetensors files"));
}

TEST_F(StoredWeightsTest, AFolderWithoutThemIsNamed) {
  std::ofstream(folder_ + "/pytorch_model.bin") << "PK";
  EXPECT_EQ(Read().status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Refusal(), HasSubstr("safe_serialization=True"));
}

TEST_F(StoredWeightsTest, OfAnotherNumberOfHeadsAreRefused) {
  ModelSection model = DefaultConfig().model;
  std::string warning;
  EXPECT_TRUE(CheckGpt2Config(folder_, model, &warning).ok()) << "nothing says otherwise";
  const auto describe = [&](const std::string& key, const nlohmann::json& value) {
    nlohmann::json config = nlohmann::json::parse(Gpt2Config(model));
    config[key] = value;
    std::ofstream(folder_ + "/config.json", std::ios::trunc) << config;
  };
  describe("n_head", model.heads * 2);
  for (const char* name : {"", "/model.safetensors"}) {
    EXPECT_THAT(std::string(CheckGpt2Config(folder_ + name, model, &warning).message()),
                HasSubstr("config.json: n_head: got 8, wanted model.heads, 4"));
  }
  EXPECT_TRUE(CheckGpt2Config(folder_ + "/other.safetensors", model, &warning).ok());
  EXPECT_EQ(warning, "");
  describe("activation_function", "gelu_new");
  EXPECT_TRUE(CheckGpt2Config(folder_, model, &warning).ok());
  EXPECT_THAT(warning, HasSubstr("activation_function: got \"gelu_new\", wanted \"gelu\""));
}

}  // namespace
}  // namespace longwave
