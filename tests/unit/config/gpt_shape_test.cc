#include "common/config/gpt_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longwave {
namespace {

using ::testing::HasSubstr;

const ModelSection kSmall = {.kind = "gpt", .d_model = 96, .layers = 3, .heads = 4, .context = 64};

TEST(GptShape, ParametersOfTheManifestAreThoseOfTheFormula) {
  for (const ModelSection& model :
       {kSmall,
        ModelSection{.kind = "gpt", .d_model = 128, .layers = 5, .heads = 4, .context = 128}}) {
    const auto manifest = GptManifest(model);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(static_cast<double>(ParameterCount(*manifest)), GptParameterCount(model));
  }
  // 320 · 96 embeddings, 3 · (12 · 96² + 13 · 96) in blocks, 2 · 96 in the last norm.
  EXPECT_EQ(GptParameterCount(kSmall), 30720 + 335520 + 192);
}

TEST(GptShape, OperationsAreThoseOfItsMatricesAndItsAttention) {
  // 3 blocks of 12 · 96² weights and 256 · 96 of the head, 6 operations each; 3 · 12 · 96 · 64.
  EXPECT_EQ(GptFlopsPerToken(kSmall), 6 * (331776 + 24576) + 221184);
}

TEST(GptShape, ManifestNamesTensorsAsGpt2Does) {
  const Manifest manifest = *GptManifest(kSmall);
  ASSERT_EQ(manifest.tensors.size(), 2u + 3 * 12 + 2);
  EXPECT_TRUE(Validate(manifest).ok());
  EXPECT_EQ(manifest.tensors[0], (TensorSpec{"wte.weight", {256, 96}}));
  EXPECT_EQ(manifest.tensors[1], (TensorSpec{"wpe.weight", {64, 96}}));
  EXPECT_EQ(manifest.tensors[2 + 12 + 2], (TensorSpec{"h.1.attn.c_attn.weight", {96, 288}}));
  EXPECT_EQ(manifest.tensors[2 + 24 + 10], (TensorSpec{"h.2.mlp.c_proj.weight", {384, 96}}));
  EXPECT_EQ(manifest.tensors.back(), (TensorSpec{"ln_f.bias", {96}}));
}

TEST(GptShape, RefusesHeadsThatDoNotDivide) {
  ModelSection model = kSmall;
  model.heads = 5;
  const absl::Status status = GptManifest(model).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("model.heads is 5; wanted a divisor of"));
}

TEST(GptShape, RefusesAnotherModel) {
  EXPECT_EQ(std::string(GptManifest({.kind = "external"}).status().message()),
            "model.kind is external; wanted gpt");
}

TEST(GptShape, RefusesAZeroSize) {
  ModelSection model = kSmall;
  model.layers = 0;
  EXPECT_THAT(std::string(GptManifest(model).status().message()), HasSubstr("model.layers is 0"));
}

}  // namespace
}  // namespace longwave
