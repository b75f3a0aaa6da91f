#include "worker/models/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace longwave {
namespace {

// A model of three tokens: token t is followed by (t + 1) mod 3 or, with a third of that
// likelihood, any other. It records its inputs.
class RingReplica final : public Replica {
 public:
  const Manifest& manifest() const override { return manifest_; }
  uint64_t parameter_count() const override { return 0; }
  float* theta() override { return nullptr; }
  float* gradient() override { return nullptr; }
  absl::StatusOr<double> ForwardBackward(const Batch&) override { return 0; }
  absl::StatusOr<double> Loss(const Batch&) override { return 0; }
  absl::StatusOr<std::vector<float>> NextLogits(std::span<const int64_t> tokens) override {
    shown.emplace_back(tokens.begin(), tokens.end());
    std::vector<float> logits(3, std::log(0.2f));
    logits[(tokens.back() + 1) % 3] = std::log(0.6f);
    return logits;
  }

  std::vector<std::vector<int64_t>> shown;

 private:
  const Manifest manifest_ = {};
};

std::string Text(Replica& replica, const Sampling& sampling, uint32_t length,
                 uint32_t context = 8) {
  std::string text;
  EXPECT_TRUE(Generate(replica, context, {0}, length, sampling, [&](size_t token) {
                text += static_cast<char>('0' + token);
                return true;
              }).ok());
  return text;
}

TEST(Generate, TakesTheLikeliestWithoutTemperatureOrOfOne) {
  RingReplica replica;
  EXPECT_EQ(Text(replica, {.temperature = 0}, 7), "1201201");
  EXPECT_EQ(Text(replica, {.temperature = 2, .top_k = 1}, 7), "1201201");
}

TEST(Generate, OneSeedGivesOneText) {
  RingReplica replica;
  const std::string text = Text(replica, {.temperature = 1, .seed = 5}, 60);
  EXPECT_EQ(Text(replica, {.temperature = 1, .seed = 5}, 60), text);
  EXPECT_NE(Text(replica, {.temperature = 1, .seed = 6}, 60), text);
}

TEST(Generate, ForgetsAHalfOfWhatTheModelCanSee) {
  using ::testing::ElementsAre;
  RingReplica replica;
  Text(replica, {.temperature = 0}, 6, 3);
  EXPECT_THAT(replica.shown,
              ElementsAre(ElementsAre(0), ElementsAre(0, 1), ElementsAre(0, 1, 2),
                          ElementsAre(2, 0), ElementsAre(2, 0, 1), ElementsAre(1, 2)));
}

TEST(Generate, EndsWhenNobodyReads) {
  RingReplica replica;
  EXPECT_EQ(Generate(replica, 8, {1}, 100, {}, [](size_t) { return false; }).code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(replica.shown.size(), 1u);
}

TEST(SampleFrom, DrawsByTheProbabilitiesAtTheTemperature) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.25f), std::log(0.2f),
                                     std::log(0.05f)};
  const auto shares = [&](const Sampling& sampling) {
    constexpr int kDraws = 40'000;
    Rng rng(1);
    std::vector<double> share(logits.size());
    for (int i = 0; i < kDraws; ++i) share[SampleFrom(logits, sampling, rng)] += 1.0 / kDraws;
    return share;
  };
  const auto near = [](double value) { return testing::DoubleNear(value, 0.015); };
  EXPECT_THAT(shares({.temperature = 1, .top_k = 0}),
              testing::ElementsAre(near(0.5), near(0.25), near(0.2), near(0.05)));
  EXPECT_THAT(shares({.temperature = 1, .top_k = 2}),
              testing::ElementsAre(near(2.0 / 3), near(1.0 / 3), 0, 0));
  // p² : 0.25, 0.0625, 0.04, 0.0025
  EXPECT_THAT(shares({.temperature = 0.5, .top_k = 0}),
              testing::ElementsAre(near(0.704), near(0.176), near(0.113), near(0.007)));
}

TEST(SampleFrom, PrefersTheSmallerOfEqualOnes) {
  Rng rng(1);
  EXPECT_EQ(SampleFrom(std::vector<float>{1, 3, 3}, {.temperature = 0}, rng), 1u);
}

}  // namespace
}  // namespace longwave
