#include "worker/sync/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/wire/tile_codec.h"
#include "tests/support/lockstep.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorkers = 3;

SyncOptions DefaultPreset() {
  return {.transform = Transform::kDct,
          .up = {Selection::kTopK, ValueCodec::kSign, 64},
          .beta = 0.95f,
          .run_seed = 7};
}

std::unique_ptr<Lockstep> Make(const SyncOptions& sync, AggregatorOptions aggregation,
                               uint32_t workers = kWorkers, uint32_t segment_tiles = 2) {
  const Manifest manifest = SmallModel();
  const std::vector<float> start = Noise(ParameterCount(manifest), 1, 0.1);
  auto cluster = Lockstep::Create(manifest, {.segment_tiles = segment_tiles}, sync, aggregation,
                                  workers, start);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return *std::move(cluster);
}

// A change as by H inner steps of a replica.
void Drift(Lockstep& cluster, uint32_t round) {
  for (uint32_t i = 0; i < cluster.workers(); ++i) {
    const auto noise = Noise(cluster.theta(i).size(), 1000 * round + i, 0.01);
    for (size_t e = 0; e < noise.size(); ++e) cluster.theta(i)[e] += noise[e];
  }
}

void ExpectEqualReplicas(Lockstep& cluster) {
  const auto first = cluster.pipeline(0).Hashes().value();
  for (uint32_t i = 0; i < cluster.workers(); ++i) {
    EXPECT_EQ(cluster.pipeline(i).Hashes().value(), first) << "worker " << i;
    for (size_t e = 0; e < cluster.theta(i).size(); ++e) {
      ASSERT_EQ(std::bit_cast<uint32_t>(cluster.theta(i)[e]),
                std::bit_cast<uint32_t>(cluster.theta(0)[e]))
          << "worker " << i << ", element " << e;
    }
  }
}

TEST(SyncPipeline, LeavesReplicasEqualToTheBitAfterEverySync) {
  const PayloadFormat down = {Selection::kTopK, ValueCodec::kInt2, 256};
  auto cluster = Make(DefaultPreset(), {.rho = 0.25, .down = down});
  for (uint32_t round = 0; round < 5; ++round) {
    Drift(*cluster, round);
    const std::vector<uint32_t> order = {(round + 2) % 3, round % 3, (round + 1) % 3};
    ASSERT_TRUE(cluster->Round(round, 1e-3, order).ok());
    ExpectEqualReplicas(*cluster);
  }
}

// DDP: nothing is selected or rounded, so the inner optimizer sees the mean of the gradients.
TEST(SyncPipeline, HandsTheMeanGradientToTheInnerOptimizer) {
  const SyncOptions ddp = {.pseudo_gradient = false, .update = UpdateKind::kInner};
  auto cluster = Make(ddp, {.rho = 1, .down = {}});
  const size_t count = cluster->layout().parameter_count();
  std::vector<double> mean(count);
  for (uint32_t i = 0; i < kWorkers; ++i) {
    const auto gradient = Noise(count, i, 1.0);
    for (size_t e = 0; e < count; ++e) mean[e] += gradient[e] / double{kWorkers};
    std::copy(gradient.begin(), gradient.end(), cluster->gradient(i).begin());
  }
  ASSERT_TRUE(cluster->Round(0, 1e-3).ok());
  for (uint32_t i = 0; i < kWorkers; ++i) {
    for (size_t e = 0; e < count; ++e) ASSERT_NEAR(cluster->gradient(i)[e], mean[e], 1e-6);
  }
}

// DiLoCo: the outer step is Nesterov's on the mean of the pseudo-gradients.
TEST(SyncPipeline, TakesNesterovsOuterStep) {
  const SyncOptions diloco = {.update = UpdateKind::kNesterov, .eta = 0.7f, .mu = 0.9f};
  auto cluster = Make(diloco, {.rho = 1, .down = {}});
  const size_t count = cluster->layout().parameter_count();
  std::vector<double> theta(cluster->theta(0).begin(), cluster->theta(0).end());
  std::vector<double> velocity(count);
  for (uint32_t round = 0; round < 4; ++round) {
    Drift(*cluster, round);
    for (size_t e = 0; e < count; ++e) {
      double mean = 0;
      for (uint32_t i = 0; i < kWorkers; ++i) mean += (theta[e] - cluster->theta(i)[e]) / kWorkers;
      velocity[e] = 0.9 * velocity[e] + mean;
      theta[e] -= 0.7 * (mean + 0.9 * velocity[e]);
    }
    ASSERT_TRUE(cluster->Round(round, 1e-3).ok());
    for (size_t e = 0; e < count; ++e) ASSERT_NEAR(cluster->theta(1)[e], theta[e], 1e-5);
  }
}

TEST(SyncPipeline, RestoreGivesBackWhatEncodeTook) {
  auto cluster = Make(DefaultPreset(), {.rho = 1, .down = {}});
  Drift(*cluster, 0);
  SyncPipeline& pipeline = cluster->pipeline(0);
  ASSERT_TRUE(pipeline.BeginFragment(0, 0, 1e-3).ok());
  const size_t count = cluster->layout().coefficient_count();
  double moved = 0;
  for (uint32_t s = 0; s < cluster->layout().segments().size(); ++s) {
    ASSERT_TRUE(pipeline.Encode(s).ok());
  }
  const std::vector<float> taken(pipeline.momentum(), pipeline.momentum() + count);
  for (uint32_t s = 0; s < cluster->layout().segments().size(); ++s) {
    ASSERT_TRUE(pipeline.Restore(s).ok());
    ASSERT_TRUE(pipeline.Restore(s).ok());  // a second time changes nothing
    moved += pipeline.report(s).sent_square_sum;
  }
  double difference = 0;
  double total = 0;
  for (size_t at = 0; at < count; ++at) {
    const double given = double{pipeline.momentum()[at]} - taken[at];
    difference += given * given;
    total += double{pipeline.momentum()[at]} * pipeline.momentum()[at];
  }
  EXPECT_NEAR(difference, moved, 1e-5 * moved);
  double momentum = 0;
  for (uint32_t s = 0; s < cluster->layout().segments().size(); ++s) {
    momentum += pipeline.report(s).momentum_square_sum;
  }
  EXPECT_NEAR(total, momentum, 1e-5 * momentum);
}

TEST(SyncPipeline, RandomAndStrideSelectionSendNoIndicesAndKeepReplicasEqual) {
  for (const Selection selection : {Selection::kRandom, Selection::kStride}) {
    SyncOptions sync = DefaultPreset();
    sync.up = {selection, ValueCodec::kBf16, 64};
    auto cluster = Make(sync, {.rho = 0, .down = {}});
    for (uint32_t round = 0; round < 3; ++round) {
      Drift(*cluster, round);
      ASSERT_TRUE(cluster->Round(round, 1e-3).ok()) << Name(selection);
      ExpectEqualReplicas(*cluster);
    }
    const uint32_t tiles = cluster->layout().segments()[0].tile_count;
    const Buffer& down = cluster->merged()[0].payload;
    EXPECT_LE(down.size(), kPayloadHeadBytes + tiles * 64 * sizeof(float)) << Name(selection);
  }
}

TEST(SyncPipeline, NamesTheTileOfANonFiniteSignalAndSendsNothing) {
  auto cluster = Make(DefaultPreset(), {.rho = 1, .down = {}});
  const Segment& second = cluster->layout().segments()[1];
  cluster->theta(0)[cluster->layout().tiles()[second.tile_begin + 1].offset] =
      std::numeric_limits<float>::quiet_NaN();
  SyncPipeline& pipeline = cluster->pipeline(0);
  ASSERT_TRUE(pipeline.BeginFragment(4, 0, 1e-3).ok());
  EXPECT_TRUE(pipeline.Encode(0).ok());
  const auto push = pipeline.Encode(1);
  EXPECT_EQ(push.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(push.status().message(), HasSubstr("round 4, segment 1, tile 1"));
}

TEST(SyncPipeline, RefusesANormThatNoFrameCarries) {
  SyncOptions sync = DefaultPreset();
  sync.transform = Transform::kNone;
  sync.up = {Selection::kAll, ValueCodec::kFp32, 0};
  auto cluster = Make(sync, {.rho = 1, .down = {}});
  for (float& theta : cluster->theta(0)) theta = 1e38f;
  SyncPipeline& pipeline = cluster->pipeline(0);
  ASSERT_TRUE(pipeline.BeginFragment(0, 0, 1e-3).ok());
  const auto push = pipeline.Encode(0);
  EXPECT_EQ(push.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(push.status().message(), HasSubstr("round 0, segment 0: the signal's norm is"));
}

TEST(SyncPipeline, RefusesAMergedPayloadThatDoesNotFit) {
  auto cluster = Make(DefaultPreset(), {.rho = 1, .down = {}});
  SyncPipeline& pipeline = cluster->pipeline(0);
  const std::vector<uint64_t> before = pipeline.Hashes().value();
  ASSERT_TRUE(pipeline.BeginFragment(0, 0, 1e-3).ok());
  EXPECT_EQ(pipeline.Apply(0, Buffer()).code(), absl::StatusCode::kInvalidArgument);
  const SyncPipeline::Push push = pipeline.Encode(0).value();
  const auto bytes = push.payload.bytes();
  EXPECT_EQ(pipeline.Apply(0, Buffer(bytes.first(bytes.size() - 1), nullptr)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pipeline.Hashes().value(), before);
}

TEST(SyncPipeline, RefusesOptionsThatDoNotFitEachOther) {
  const Layout layout = Layout::Create(SmallModel(), {}).value();
  const KernelOps* ops = OpsFor(BackendKind::kCpu).value();
  std::vector<float> theta(layout.parameter_count());
  const auto no_gradient =
      SyncPipeline::Create({.pseudo_gradient = false}, &layout, ops, {}, {.theta = theta.data()});
  EXPECT_THAT(no_gradient.status().message(), HasSubstr("no gradient"));
  const auto inner = SyncPipeline::Create({.update = UpdateKind::kInner}, &layout, ops, {},
                                          {theta.data(), theta.data()});
  EXPECT_THAT(inner.status().message(), HasSubstr("wanted a gradient"));
}

}  // namespace
}  // namespace longwave
