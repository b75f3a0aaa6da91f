#include "worker/models/script_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/models/replica_parts.h"

namespace longwave {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

using torch::jit::Module;

constexpr int64_t kTokens = 4;

// Logits of the next token are a row of `table`, its own only: a bigram model.
constexpr char kBigram[] = R"(
def forward(self, inputs, targets):
    logits = self.table[inputs].flatten(0, 1)
    return torch.nll_loss(torch.log_softmax(logits, 1), targets.flatten())
)";

// tokens 0 1 2 3 0 1 …: each has one successor.
Batch Counting() {
  Batch batch{.rows = 2, .length = 4};
  for (int64_t i = 0; i < batch.rows * batch.length; ++i) {
    batch.tokens.push_back(i % kTokens);
    batch.targets.push_back((i + 1) % kTokens);
  }
  return batch;
}

at::Tensor Table() { return at::arange(kTokens * kTokens, at::kFloat).view({kTokens, kTokens}); }

class ScriptModelTest : public ::testing::Test {
 protected:
  ~ScriptModelTest() override { std::remove(path_.c_str()); }

  ScriptModelTest() : module_("Model") {
    module_.register_attribute("training", c10::BoolType::get(), true);
  }

  void Add(const std::string& name, const at::Tensor& value, bool is_trained = true) {
    module_.register_parameter(name, value.detach().set_requires_grad(is_trained), false);
  }

  // The module with this forward, as a file.
  ModelSection Save(const std::string& forward) {
    module_.define(forward + "\n");
    module_.save(path_);
    return {.kind = "file", .file = path_};
  }

  std::string ErrorOf(const ModelSection& model) {
    const auto replica = Replica::Create(model, kTrain, 1, 1);
    EXPECT_FALSE(replica.ok());
    EXPECT_EQ(replica.status(), ReplicaManifest(model).status());
    return std::string(replica.status().message());
  }

  // Each test's own: ctest runs them at the same time.
  const std::string path_ = absl::StrCat(::testing::TempDir(), "/model-", getpid(), ".pt");
  Module module_;
};

TEST_F(ScriptModelTest, LearnsFromTheValuesOfTheFile) {
  Add("table", Table());
  const auto replica = MakeReplica(1, Save(kBigram));
  EXPECT_EQ(replica->manifest(), (Manifest{{{"table", {kTokens, kTokens}}}}));
  EXPECT_EQ(Theta(*replica)[5], 5);
  AdamW optimizer = MakeOptimizer(*replica);
  const double first = *replica->ForwardBackward(Counting());
  for (int step = 0; step < 100; ++step) {
    Step(optimizer, *replica, 0.3);
    ASSERT_TRUE(replica->ForwardBackward(Counting()).ok());
  }
  EXPECT_GT(first, 1);
  EXPECT_LT(*replica->Loss(Counting()), 0.01);
}

TEST_F(ScriptModelTest, GradientIsThatOfTheWholeBatchInMicroBatchesToo) {
  Add("table", Table());
  const ModelSection model = Save(kBigram);
  const auto whole = MakeReplica(1, model);
  auto parts = Replica::Create(model, {.batch = 2, .micro_batches = 2}, 1, 1);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_NEAR(*whole->ForwardBackward(Counting()), *(*parts)->ForwardBackward(Counting()), 1e-6);
  EXPECT_THAT(Gradient(**parts),
              ::testing::Pointwise(::testing::FloatNear(1e-6), Gradient(*whole)));
  // Row 0 of the table has the logits after token 0, 0 to 3; token 1 follows it. A quarter of the
  // targets is behind each row.
  const double sum = 1 + std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(Gradient(*whole)[0], 0.25 / sum, 1e-6);
  EXPECT_NEAR(Gradient(*whole)[1], 0.25 * (std::exp(1.0) / sum - 1), 1e-6);
}

TEST_F(ScriptModelTest, TiedParametersAreOneAndFrozenOnesNone) {
  const at::Tensor shared = at::full({3}, 2.0f).set_requires_grad(true);
  Add("bias", at::ones({3}), /*is_trained=*/false);
  module_.register_parameter("a", shared, false);
  module_.register_parameter("b", shared, false);
  const auto replica = MakeReplica(1, Save(R"(
def forward(self, inputs, targets):
    return (self.a + 2 * self.b + self.bias).sum()
)"));
  EXPECT_THAT(replica->manifest().tensors, ElementsAre(Field(&TensorSpec::name, "a")));
  EXPECT_EQ(*replica->ForwardBackward(Counting()), 21);
  EXPECT_THAT(Gradient(*replica), ElementsAre(3, 3, 3));
  std::ranges::fill(Theta(*replica), 0);
  EXPECT_EQ(*replica->Loss(Counting()), 3);
}

TEST_F(ScriptModelTest, ScalarsAndShapesOfManyDimensionsAreTrained) {
  Add("scale", at::full({}, 3.0f));
  Add("kernel", at::ones({2, 1, 2, 1, 2}));
  const auto replica = MakeReplica(1, Save(R"(
def forward(self, inputs, targets):
    return self.scale * self.kernel.sum()
)"));
  EXPECT_EQ(*replica->ForwardBackward(Counting()), 24);
  EXPECT_EQ(replica->parameter_count(), 9u);
  EXPECT_THAT(std::vector<float>(Gradient(*replica).begin(), Gradient(*replica).end()),
              ::testing::UnorderedElementsAre(8, 3, 3, 3, 3, 3, 3, 3, 3));
}

TEST_F(ScriptModelTest, ValidatesInEvaluationMode) {
  Add("w", at::ones({1}));
  const auto replica = MakeReplica(1, Save(R"(
def forward(self, inputs, targets):
    if self.training:
        return self.w.sum()
    return 2 * self.w.sum()
)"));
  EXPECT_EQ(*replica->ForwardBackward(Counting()), 1);
  EXPECT_EQ(*replica->Loss(Counting()), 2);
  EXPECT_EQ(*replica->ForwardBackward(Counting()), 1);
}

TEST_F(ScriptModelTest, ComputesInBf16UnderAutocast) {
  Add("w", at::full({1, 1}, 1 + 0x1p-9));  // 1 in bf16
  const ModelSection model = Save("def forward(self, inputs, targets): return self.w.mm(self.w)");
  EXPECT_GT(*MakeReplica(1, model)->ForwardBackward(Counting()), 1);
  auto replica = Replica::Create(model, {.batch = 2, .autocast = "bf16"}, 1, 1);
  ASSERT_TRUE(replica.ok()) << replica.status();
  EXPECT_EQ(*(*replica)->ForwardBackward(Counting()), 1);
}

TEST_F(ScriptModelTest, GetsImagesAsTheirDataAre) {
  Add("w", at::ones({1}));
  const ModelSection model = [&] {
    ModelSection section = Save(R"(
def forward(self, inputs, targets):
    return self.w.sum() * inputs.size(0) * inputs.size(1) * inputs.size(3) + targets.sum()
)");
    section.channels = 3;
    section.image_size = 8;
    return section;
  }();
  const auto replica = MakeReplica(1, model);
  const Batch batch{.rows = 2, .pixels = std::vector<float>(2 * 3 * 8 * 8), .targets = {5, 6}};
  EXPECT_EQ(*replica->Loss(batch), 2 * 3 * 8 + 11);
}

TEST_F(ScriptModelTest, ABufferMustStay) {
  Add("w", at::ones({1}));
  module_.register_buffer("scale", at::full({1}, 3.0f));
  module_.register_buffer("steps", at::zeros({1}));
  const auto replica = MakeReplica(1, Save(R"(
def forward(self, inputs, targets):
    if self.training:
        self.steps.add_(1)
    return (self.scale * self.w).sum()
)"));
  EXPECT_EQ(*replica->Loss(Counting()), 3);
  EXPECT_THAT(
      replica->ForwardBackward(Counting()).status().message(),
      HasSubstr("forward changes steps, of which each replica would have its own; wanted "));
}

TEST_F(ScriptModelTest, ABufferIsNotReplaced) {
  Add("w", at::ones({1}));
  module_.register_buffer("steps", at::zeros({1}));
  const auto replica = MakeReplica(1, Save(R"(
def forward(self, inputs, targets):
    self.steps = self.steps + 1
    return self.w.sum()
)"));
  EXPECT_THAT(replica->ForwardBackward(Counting()).status().message(),
              HasSubstr("forward changes steps"));
}

TEST_F(ScriptModelTest, AFrozenParameterMustStay) {
  Add("w", at::ones({1}));
  module_.register_parameter("average", at::ones({1}), /*is_buffer=*/false);
  module_.attr("average").toTensor().set_requires_grad(false);
  const auto replica = MakeReplica(1, Save(R"(
def forward(self, inputs, targets):
    self.average.mul_(0.9)
    return self.w.sum()
)"));
  EXPECT_THAT(replica->ForwardBackward(Counting()).status().message(),
              HasSubstr("forward changes average"));
}

TEST_F(ScriptModelTest, LossIsOneNumber) {
  Add("w", at::ones({3}));
  const auto replica = MakeReplica(1, Save("def forward(self, inputs, targets): return self.w"));
  EXPECT_THAT(replica->ForwardBackward(Counting()).status().message(),
              HasSubstr("forward returns a tensor of 3 values of Float, wanted the mean loss"));
  EXPECT_FALSE(replica->NextLogits(std::vector<int64_t>{1}).ok());
}

TEST_F(ScriptModelTest, FailuresOfForwardAreErrors) {
  Add("table", at::ones({2, 2}));  // tokens reach 3
  EXPECT_THAT(MakeReplica(1, Save(kBigram))->Loss(Counting()).status().message(),
              HasSubstr("model: LibTorch: "));
}

TEST_F(ScriptModelTest, OtherFilesAreRefusedInASentence) {
  const ModelSection model{.kind = "file", .file = path_};
  for (const std::string& text :
       {std::string(), std::string("no module"), std::string(5000, 'P')}) {
    std::ofstream(path_) << text;
    EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr(path_ + ": got what LibTorch "),
                                      HasSubstr("wanted a TorchScript module with forward")));
  }
  EXPECT_THAT(ErrorOf({.kind = "file", .file = path_ + ".none"}),
              HasSubstr(".none, which is no file on this machine, wanted a TorchScript module's"));
}

TEST_F(ScriptModelTest, AnotherForwardIsRefused) {
  Add("w", at::ones({1}));
  EXPECT_THAT(ErrorOf(Save("def forward(self, inputs): return self.w")),
              HasSubstr("got forward with 1 arguments, wanted"));
}

TEST_F(ScriptModelTest, ModulesWithoutForwardAreRefused) {
  EXPECT_THAT(ErrorOf(Save("def loss(self, inputs, targets): return inputs")),
              HasSubstr("got a module without forward, wanted"));
}

TEST_F(ScriptModelTest, ModulesWithNothingToTrainAreRefused) {
  Add("w", at::ones({1}), /*is_trained=*/false);
  EXPECT_THAT(ErrorOf(Save("def forward(self, inputs, targets): return self.w")),
              HasSubstr("got no parameter that requires a gradient, wanted what is to be trained"));
}

TEST_F(ScriptModelTest, ParametersAreOfFp32) {
  Add("w", at::ones({1}, at::kDouble));
  EXPECT_THAT(ErrorOf(Save("def forward(self, inputs, targets): return self.w")),
              HasSubstr("got parameter w of Double, wanted dense parameters of fp32"));
}

TEST_F(ScriptModelTest, PartsOfAnotherParameterAreRefused) {
  const at::Tensor whole = at::ones({4});
  Add("whole", whole);
  Add("part", whole.slice(0, 0, 2));
  EXPECT_THAT(ErrorOf(Save("def forward(self, inputs, targets): return self.whole")),
              HasSubstr("got parameter part, a part of whose memory is another's"));
}

}  // namespace
}  // namespace longwave
