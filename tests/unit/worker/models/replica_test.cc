#include "worker/models/replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "common/layout/layout.h"
#include "tests/unit/worker/models/replica_parts.h"
#include "worker/data/corpus.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

const ModelSection kTiny = {.kind = "gpt", .d_model = 16, .layers = 2, .heads = 2, .context = 8};
Corpus MakeCorpus() {
  std::string text;
  while (text.size() < 400) text += "the quick brown fox jumps over the lazy dog; ";
  return *Corpus::FromText(text, 0.2, kTiny.context, "text");
}

Batch MakeBatch(uint64_t step = 0) { return *MakeCorpus().TrainBatch(1, 0, step, 4); }

void Clip(Replica& replica, double norm_max) {
  ASSERT_TRUE(ClipToNorm(Cpu(), {}, norm_max, replica.gradient(), replica.parameter_count()).ok());
}

// After ten steps.
std::unique_ptr<Replica> MakeTrained() {
  auto replica = MakeReplica(1, kTiny);
  AdamW optimizer = MakeOptimizer(*replica);
  for (uint64_t step = 0; step < 10; ++step) {
    EXPECT_TRUE(replica->ForwardBackward(MakeBatch(step)).ok());
    Step(optimizer, *replica, 0.01);
  }
  return replica;
}

TEST(Replica, StartsNearTheUniformLoss) {
  const auto replica = MakeReplica(1, kTiny);
  EXPECT_NEAR(*replica->Loss(MakeBatch()), std::log(256.0), 0.05);
}

TEST(Replica, ForwardBackwardAndLossAgree) {
  const auto replica = MakeReplica(1, kTiny);
  EXPECT_EQ(*replica->Loss(MakeBatch()), *replica->ForwardBackward(MakeBatch()));
}

// The mean over a row's places of the model's predictions of each next token.
TEST(Replica, NextLogitsAndLossAgree) {
  const auto replica = MakeTrained();
  Batch row = MakeBatch(99);
  row.rows = 1;
  row.tokens.resize(row.length);
  row.targets.resize(row.length);
  double sum = 0;
  for (uint32_t i = 0; i < row.length; ++i) {
    const auto logits = replica->NextLogits(std::span(row.tokens).first(i + 1));
    ASSERT_TRUE(logits.ok()) << logits.status();
    ASSERT_EQ(logits->size(), 256u);
    double all = 0;
    for (const float logit : *logits) all += std::exp(double{logit});
    sum += std::log(all) - (*logits)[row.targets[i]];
  }
  EXPECT_NEAR(sum / row.length, *replica->Loss(row), 1e-5);
  // The model remembers a beginning for texts that go on with it, and for no other.
  const std::vector<float> whole = *replica->NextLogits(row.tokens);
  const std::vector<int64_t> other = {row.tokens[0], row.tokens[1] ^ 1, row.tokens[2]};
  const std::vector<float> of_other = *replica->NextLogits(other);
  EXPECT_EQ(*MakeReplica(1, kTiny)->NextLogits(other), *MakeReplica(1, kTiny)->NextLogits(other));
  EXPECT_EQ(*replica->NextLogits(row.tokens), whole);
  EXPECT_EQ(*replica->NextLogits(row.tokens), whole);
  EXPECT_EQ(*replica->NextLogits(other), of_other);
  EXPECT_NE(whole, of_other);
}

// The gradient that stands at a place of the flat array is that of the parameter at the same place.
TEST(Replica, GradientMatchesFiniteDifferencesInEveryTensor) {
  // At the start biases and the residual stream are too small to tell gradients from rounding.
  const auto replica = MakeTrained();
  const Batch batch = MakeBatch(99);
  ASSERT_TRUE(replica->ForwardBackward(batch).ok());
  const std::vector<float> gradient(Gradient(*replica).begin(), Gradient(*replica).end());
  const Layout layout = *Layout::Create(replica->manifest(), LayoutOptions{});
  for (size_t tensor = 0; tensor < replica->manifest().tensors.size(); ++tensor) {
    const TensorSpec& spec = replica->manifest().tensors[tensor];
    // The element with the largest gradient shows best against rounding.
    const uint64_t begin = layout.flat_offset(tensor);
    uint64_t place = begin;
    for (uint64_t i = begin; i < begin + ElementCount(spec); ++i) {
      if (std::abs(gradient[i]) > std::abs(gradient[place])) place = i;
    }
    constexpr float kDelta = 4e-3f;
    float& theta = replica->theta()[place];
    const float middle = theta;
    theta = middle + kDelta;
    const double above = *replica->Loss(batch);
    theta = middle - kDelta;
    const double below = *replica->Loss(batch);
    theta = middle;
    const double slope = (above - below) / (2.0 * kDelta);
    EXPECT_NEAR(gradient[place], slope, 2e-4 + 0.02 * std::abs(slope)) << spec.name;
    EXPECT_NE(gradient[place], 0) << spec.name;
  }
}

TEST(Replica, GradientIsOfTheLastBatchAlone) {
  const auto replica = MakeReplica(1, kTiny);
  ASSERT_TRUE(replica->ForwardBackward(MakeBatch(0)).ok());
  const float* const place = replica->gradient();
  const std::vector<float> once(Gradient(*replica).begin(), Gradient(*replica).end());
  ASSERT_TRUE(replica->ForwardBackward(MakeBatch(1)).ok());
  ASSERT_TRUE(replica->ForwardBackward(MakeBatch(0)).ok());
  EXPECT_EQ(replica->gradient(), place);
  EXPECT_EQ(std::memcmp(once.data(), place, once.size() * sizeof(float)), 0);
}

TEST(Replica, OneSeedGivesTheSameBitsAfterThreeSteps) {
  const auto a = MakeReplica(7, kTiny), b = MakeReplica(7, kTiny);
  for (Replica* replica : {a.get(), b.get()}) {
    AdamW optimizer = MakeOptimizer(*replica);
    for (uint64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(replica->ForwardBackward(MakeBatch(step)).ok());
      Clip(*replica, 1.0);
      Step(optimizer, *replica, 0.003);
    }
  }
  EXPECT_EQ(std::memcmp(a->theta(), b->theta(), a->parameter_count() * sizeof(float)), 0);
}

TEST(Replica, SeedsDiffer) {
  const auto a = MakeReplica(1, kTiny), b = MakeReplica(2, kTiny);
  EXPECT_NE(std::memcmp(a->theta(), b->theta(), a->parameter_count() * sizeof(float)), 0);
}

TEST(Replica, WeightsStartWithGpt2sDeviations) {
  const auto replica =
      MakeReplica(3, {.kind = "gpt", .d_model = 64, .layers = 2, .heads = 2, .context = 8});
  const Layout layout = *Layout::Create(replica->manifest(), LayoutOptions{});
  auto deviation = [&](const std::string& name) {
    for (size_t i = 0; i < replica->manifest().tensors.size(); ++i) {
      const TensorSpec& spec = replica->manifest().tensors[i];
      if (spec.name != name) continue;
      double sum = 0, square_sum = 0;
      const auto count = static_cast<double>(ElementCount(spec));
      for (int64_t j = 0; j < ElementCount(spec); ++j) {
        const double value = replica->theta()[layout.flat_offset(i) + j];
        sum += value;
        square_sum += value * value;
      }
      return std::sqrt(square_sum / count - sum / count * sum / count);
    }
    return -1.0;
  };
  EXPECT_NEAR(deviation("wte.weight"), 0.02, 0.001);
  EXPECT_NEAR(deviation("h.1.mlp.c_fc.weight"), 0.02, 0.001);
  EXPECT_NEAR(deviation("h.1.mlp.c_proj.weight"), 0.01, 0.0005);
  EXPECT_EQ(deviation("h.0.attn.c_attn.bias"), 0);
}

// The losses of all but the last place equal those of a sequence one token shorter. If a prediction
// saw later text, the sums would differ.
TEST(Replica, LooksAtNoLaterToken) {
  const auto replica = MakeReplica(1, kTiny);
  // Weights twenty times larger than the start's, so that attention moves predictions visibly.
  for (float& value : Theta(*replica)) value *= 20;
  // The whole's last target is chosen so that its own loss can be told: over all 256 targets the
  // probabilities of one place sum to 1, which gives that place's part exactly.
  Batch whole = MakeBatch();
  whole.rows = 1;
  whole.tokens.resize(whole.length);
  whole.targets.resize(whole.length);
  Batch prefix = whole;
  prefix.length -= 1;
  prefix.tokens.pop_back();
  prefix.targets.pop_back();
  const double prefix_sum = *replica->Loss(prefix) * static_cast<double>(prefix.length);
  double probability = 0;
  for (int64_t target = 0; target < 256; ++target) {
    whole.targets.back() = target;
    const double whole_sum = *replica->Loss(whole) * static_cast<double>(whole.length);
    probability += std::exp(prefix_sum - whole_sum);
  }
  EXPECT_NEAR(probability, 1.0, 1e-3);
}

// The bits that replicas of one seed start from, on every machine and device: a change breaks runs
// whose workers are of different versions.
TEST(Replica, StartsFromTheBitsItAlwaysStartedFrom) {
  const auto replica = MakeReplica(7, kTiny);
  const Layout layout = *Layout::Create(replica->manifest(), LayoutOptions{});
  std::vector<uint64_t> hashes(layout.segments().size());
  ASSERT_TRUE(
      Cpu().hash({}, {.layout = &layout, .theta = replica->theta(), .hashes = hashes}).ok());
  EXPECT_EQ(hashes, (std::vector<uint64_t>{14558689805325279830u}));
}

TrainSection Bf16() {
  TrainSection train = kTrain;
  train.autocast = "bf16";
  return train;
}

TEST(Autocast, ChangesLossAndGradientByBf16sRounding) {
  const auto plain = MakeReplica(1, kTiny);
  const auto bf16 = *Replica::Create(kTiny, Bf16(), 1, 1);
  const double loss = *plain->ForwardBackward(MakeBatch());
  const double rounded = *bf16->ForwardBackward(MakeBatch());
  EXPECT_NE(loss, rounded);
  EXPECT_NEAR(loss, rounded, 1e-3 * loss);
  double difference = 0, norm = 0;
  for (uint64_t i = 0; i < plain->parameter_count(); ++i) {
    difference += std::pow(plain->gradient()[i] - bf16->gradient()[i], 2);
    norm += std::pow(plain->gradient()[i], 2);
  }
  EXPECT_GT(difference, 0);
  EXPECT_LT(std::sqrt(difference / norm), 0.02);
}

TEST(Autocast, EndsWithTheStep) {
  const auto plain = MakeReplica(1, kTiny);
  const auto bf16 = *Replica::Create(kTiny, Bf16(), 1, 1);
  const double before = *plain->ForwardBackward(MakeBatch());
  ASSERT_TRUE(bf16->ForwardBackward(MakeBatch()).ok());
  EXPECT_EQ(*plain->ForwardBackward(MakeBatch()), before);
}

TEST(Replica, LearnsASmallTextByHeart) {
  for (const TrainSection& train : {kTrain, Bf16()}) {
    const auto replica = *Replica::Create(kTiny, train, 1, 1);
    AdamW optimizer = MakeOptimizer(*replica, {.beta2 = 0.99});
    double loss = 0;
    for (uint64_t step = 0; step < 300; ++step) {
      loss = *replica->ForwardBackward(MakeBatch(step));
      Clip(*replica, 1.0);
      Step(optimizer, *replica, 0.01);
    }
    EXPECT_LT(loss, train.autocast == Bf16().autocast ? 0.8 : 0.7);
    EXPECT_LT(*replica->Loss(*MakeCorpus().ValidationBatch(0, 1, 4)), 0.8);
  }
}

TEST(Replica, ReportsALossThatIsNotFinite) {
  const auto replica = MakeReplica(1, kTiny);
  for (float& value : Theta(*replica)) value = 1e30f;
  const auto loss = replica->ForwardBackward(MakeBatch());
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_FALSE(std::isfinite(*loss));
}

TEST(Replica, RefusesAModelTooLargeForMemory) {
  const auto replica = Replica::Create(
      {.kind = "gpt", .d_model = 65536, .layers = 96, .heads = 128, .context = 2048}, kTrain, 1, 1);
  EXPECT_EQ(replica.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(replica.status().message()),
              HasSubstr("model: 4.9 T parameters want about"));
}

TEST(Replica, RefusesAnUnknownKind) {
  ModelSection model = kTiny;
  model.kind = "rnn";
  const absl::Status status = Replica::Create(model, kTrain, 1, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "model.kind is rnn; wanted gpt");
}

TEST(Replica, ATokenOutsideTheVocabularyIsAnErrorNotACrash) {
  Batch batch = MakeBatch();
  batch.tokens[0] = 256;
  const absl::Status status = MakeReplica(1, kTiny)->Loss(batch).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos);
}

TEST(Replica, MicroBatchesAddUpToTheBatch) {
  TrainSection train = kTrain;
  for (const uint32_t parts : {2u, 3u, 9u}) {  // of four rows: 2 and 2, 2 and 2, each alone
    train.micro_batches = parts;
    const auto whole = MakeReplica(1, kTiny);
    const auto replica = *Replica::Create(kTiny, train, 1, 1);
    EXPECT_NEAR(*replica->ForwardBackward(MakeBatch()), *whole->ForwardBackward(MakeBatch()), 1e-5);
    for (size_t i = 0; i < whole->parameter_count(); ++i)
      ASSERT_NEAR(Gradient(*replica)[i], Gradient(*whole)[i], 1e-5) << parts << " " << i;
  }
}

}  // namespace
}  // namespace longwave
