// Syncs that training overlaps, and models that are synced in fragments: all workers' real
// pipelines and a real aggregator in lockstep.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/lockstep.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorkers = 3;
constexpr double kLearningRate = 1e-3;

struct Setting {
  uint32_t inner_steps = 6;
  uint32_t overlap = 0;
  uint32_t fragments = 1;
  float blend = 1;
  float beta = 0.9f;
  PayloadFormat up = {Selection::kTopK, ValueCodec::kSign, 64};
  PayloadFormat down = {Selection::kTopK, ValueCodec::kInt2, 256};
  Tiling tiling = Tiling::kModel;

  std::string Name() const {
    return "overlap " + std::to_string(overlap) + ", fragments " + std::to_string(fragments) +
           ", blend " + std::to_string(blend);
  }
};

// A run of all workers, with steps that move each parameter a little.
class Training {
 public:
  explicit Training(const Setting& setting) {
    const SyncOptions sync = {.up = setting.up,
                              .beta = setting.beta,
                              .run_seed = 7,
                              .overlapped = setting.overlap > 0,
                              .blend = setting.blend,
                              .fragments = setting.fragments};
    const Manifest manifest = SmallModel();
    start_ = Noise(ParameterCount(manifest), 1, 0.1);
    progress_.assign(start_.size(), 0.0);
    cluster_ = *Lockstep::Create(manifest, {.tiling = setting.tiling, .segment_tiles = 1}, sync,
                                 {.rho = 1, .down = setting.down}, kWorkers, start_);
    EXPECT_EQ(cluster_->pipeline(0).fragment_count(), setting.fragments);
  }

  Lockstep& cluster() { return *cluster_; }
  // Mean over the workers of the change that their steps have made to each element.
  const std::vector<double>& progress() const { return progress_; }
  const std::vector<float>& start() const { return start_; }

  void Train(uint64_t steps) {
    for (; step_ < steps; ++step_) {
      for (uint32_t i = 0; i < kWorkers; ++i) {
        const std::vector<float> noise = Noise(start_.size(), 100 * step_ + i, 0.01);
        for (size_t e = 0; e < noise.size(); ++e) {
          const float before = cluster_->theta(i)[e];
          cluster_->theta(i)[e] += noise[e];
          progress_[e] += (double{cluster_->theta(i)[e]} - before) / kWorkers;
        }
      }
    }
  }

  void Follow(const SyncPlan& plan, const std::function<void()>& after_each) {
    for (uint32_t round = 0; round < plan.round_count(); ++round) {
      for (uint32_t fragment = 0; fragment < plan.fragment_count(); ++fragment) {
        const SyncPoint point = plan.At(round, fragment);
        Train(point.signal_step);
        ASSERT_TRUE(cluster_->Send(round, fragment, kLearningRate).ok());
        Train(point.apply_step);
        ASSERT_TRUE(cluster_->Apply().ok());
        after_each();
      }
    }
  }

 private:
  std::unique_ptr<Lockstep> cluster_;
  std::vector<float> start_;
  std::vector<double> progress_;
  uint64_t step_ = 0;
};

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (const uint32_t fragments : {1, 2, 3}) {
    for (const uint32_t overlap : {0, 1}) {
      for (const float blend : {0.0f, 0.5f, 1.0f}) {
        for (const Tiling tiling : {Tiling::kModel, Tiling::kFlat}) {
          if (overlap == 0 && blend < 1) continue;
          settings.push_back({.overlap = overlap, .fragments = fragments, .blend = blend});
          settings.back().tiling = tiling;
        }
      }
    }
  }
  return settings;
}

TEST(Overlap, KeepsAllAnchorsEqualToTheBitAfterEveryFragment) {
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(setting.Name());
    Training run(setting);
    Lockstep& cluster = run.cluster();
    uint64_t moved = 0;
    std::vector<uint64_t> before = cluster.pipeline(0).Hashes().value();
    const auto check = [&] {
      const std::vector<uint64_t> hashes = cluster.pipeline(0).Hashes().value();
      for (uint32_t i = 1; i < kWorkers; ++i) {
        ASSERT_EQ(cluster.pipeline(i).Hashes().value(), hashes) << "worker " << i;
      }
      moved += hashes != before;
      before = hashes;
    };
    // The last round is a short one.
    run.Follow(SyncPlan(setting.inner_steps, setting.fragments, setting.overlap, 20), check);
    EXPECT_EQ(moved, 4u * setting.fragments);
  }
}

TEST(Overlap, MovesOnlyTheFragmentThatIsApplied) {
  Training run({.overlap = 1, .fragments = 2, .blend = 1});
  Lockstep& cluster = run.cluster();
  const std::vector<uint64_t> before = cluster.pipeline(0).Hashes().value();
  run.Train(3);
  ASSERT_TRUE(cluster.Send(0, 0, kLearningRate).ok());
  run.Train(4);
  ASSERT_TRUE(cluster.Apply().ok());
  const std::vector<uint64_t> after = cluster.pipeline(0).Hashes().value();
  for (size_t s = 0; s < before.size(); ++s) {
    EXPECT_EQ(before[s] == after[s], s % 2 == 1) << "segment " << s;
  }
}

// θᵢ ← fma(blend, θᵢ − base, anchor), to the bit, and nothing of other fragments.
TEST(Overlap, BlendsWhatWasLearntMeanwhileIntoTheNewAnchor) {
  for (const float blend : {0.0f, 0.5f, 1.0f}) {
    for (const uint32_t fragments : {1, 2}) {
      Setting setting{.overlap = 2, .fragments = fragments, .blend = blend};
      Training run(setting);
      Lockstep& cluster = run.cluster();
      run.Train(3);
      const std::vector<float> base(cluster.theta(1).begin(), cluster.theta(1).end());
      ASSERT_TRUE(cluster.Send(0, 0, kLearningRate).ok());
      run.Train(5);
      std::vector<float> wanted(cluster.theta(1).begin(), cluster.theta(1).end());
      ASSERT_TRUE(cluster.Apply().ok());
      const float* anchor = cluster.pipeline(1).anchor();
      for (const auto& [begin, end] :
           FragmentElements(cluster.layout(), 0, fragments, AllSegments(cluster.layout()))) {
        for (uint64_t e = begin; e < end; ++e) {
          wanted[e] = std::fma(blend, wanted[e] - base[e], anchor[e]);
        }
      }
      for (size_t e = 0; e < wanted.size(); ++e) {
        ASSERT_EQ(std::bit_cast<uint32_t>(cluster.theta(1)[e]), std::bit_cast<uint32_t>(wanted[e]))
            << "blend " << blend << ", element " << e;
      }
    }
  }
}

// β = 1, blend 1, sgd 1, everything merged sent down: each step's progress is in the anchor, in a
// residual, or not signalled yet, and in one of them only.
TEST(Overlap, CountsEveryStepsProgressOnce) {
  for (const uint32_t fragments : {1, 2, 3}) {
    for (const uint32_t overlap : {0, 1}) {
      Setting setting{.overlap = overlap, .fragments = fragments, .beta = 1, .down = {}};
      setting.tiling = Tiling::kFlat;  // coefficient e is element e
      SCOPED_TRACE(setting.Name());
      Training run(setting);
      Lockstep& cluster = run.cluster();
      run.Follow(SyncPlan(setting.inner_steps, fragments, overlap, 24), [] {});
      for (size_t e = 0; e < run.start().size(); ++e) {
        double found = double{cluster.pipeline(0).anchor()[e]} - run.start()[e];
        for (uint32_t i = 0; i < kWorkers; ++i) {
          const double unsignalled = double{cluster.theta(i)[e]} - cluster.pipeline(i).anchor()[e];
          found += (unsignalled - cluster.pipeline(i).momentum()[e]) / kWorkers;
        }
        ASSERT_NEAR(found, run.progress()[e], 1e-5) << "element " << e;
      }
    }
  }
}

TEST(Overlap, WithoutAStepBetweenSignalAndUpdateChangesNoBit) {
  Setting plain{.overlap = 0}, overlapped{.overlap = 1};
  Training a(plain), b(overlapped);
  for (uint32_t round = 0; round < 3; ++round) {
    for (Training* run : {&a, &b}) {
      run->Train(6 * (round + 1));
      ASSERT_TRUE(run->cluster().Round(round, kLearningRate).ok());
    }
    for (uint32_t i = 0; i < kWorkers; ++i) {
      EXPECT_EQ(a.cluster().pipeline(i).Hashes().value(), b.cluster().pipeline(i).Hashes().value());
      EXPECT_TRUE(std::equal(a.cluster().theta(i).begin(), a.cluster().theta(i).end(),
                             b.cluster().theta(i).begin()));
    }
  }
}

TEST(Overlap, SwapAnchorShowsTheAnchorAndGivesThetaBack) {
  Training run({.overlap = 1, .fragments = 2, .blend = 0.5f});
  Lockstep& cluster = run.cluster();
  run.Follow(SyncPlan(6, 2, 1, 12), [] {});
  run.Train(14);
  SyncPipeline& pipeline = cluster.pipeline(0);
  const size_t count = run.start().size();
  const std::vector<float> theta(cluster.theta(0).begin(), cluster.theta(0).end());
  const std::vector<float> anchor(pipeline.anchor(), pipeline.anchor() + count);
  ASSERT_NE(theta, anchor);
  ASSERT_TRUE(pipeline.SwapAnchor().ok());
  EXPECT_TRUE(std::equal(anchor.begin(), anchor.end(), cluster.theta(0).begin()));
  ASSERT_TRUE(pipeline.SwapAnchor().ok());
  EXPECT_TRUE(std::equal(theta.begin(), theta.end(), cluster.theta(0).begin()));
  EXPECT_TRUE(std::equal(anchor.begin(), anchor.end(), pipeline.anchor()));
}

// A push that was late goes back into the residual of its own segment, before or after the update,
// though the round of another fragment has begun since.
TEST(Overlap, ALatePushIsRestoredBySegment) {
  for (const bool after_update : {false, true}) {
    Training run({.overlap = 1, .fragments = 2, .up = {Selection::kRandom, ValueCodec::kInt8, 64}});
    Lockstep& cluster = run.cluster();
    SyncPipeline& pipeline = cluster.pipeline(0);
    run.Train(3);
    ASSERT_TRUE(cluster.Send(0, 0, kLearningRate).ok());
    const size_t count = cluster.layout().coefficient_count();
    const std::vector<float> taken(pipeline.momentum(), pipeline.momentum() + count);
    if (!after_update) {
      ASSERT_TRUE(pipeline.Restore(2).ok());
    }
    ASSERT_TRUE(cluster.Apply().ok());
    if (after_update) {
      ASSERT_TRUE(pipeline.BeginFragment(1, 1, kLearningRate).ok());
      ASSERT_TRUE(pipeline.Restore(2).ok());
    }
    const Segment& segment = cluster.layout().segments()[2];
    double square_sum = 0;
    for (size_t at = 0; at < count; ++at) {
      const double given = double{pipeline.momentum()[at]} - taken[at];
      const bool inside = at >= segment.coefficient_begin &&
                          at < segment.coefficient_begin + segment.coefficient_count;
      if (!inside) {
        ASSERT_EQ(given, 0) << at;
      }
      square_sum += given * given;
    }
    EXPECT_NEAR(square_sum, pipeline.report(2).sent_square_sum, 1e-5 * square_sum);
    EXPECT_GT(square_sum, 0);
  }
}

TEST(Overlap, WantsAPseudoGradientAndAnUpdateThatMovesAllAnchorsAlike) {
  const Layout layout = *Layout::Create(SmallModel(), {});
  const KernelOps* ops = *OpsFor(BackendKind::kCpu);
  std::vector<float> theta(layout.parameter_count());
  for (const SyncOptions& options :
       {SyncOptions{.pseudo_gradient = false, .overlapped = true},
        SyncOptions{.pseudo_gradient = false, .fragments = 2},
        SyncOptions{.update = UpdateKind::kLocal, .overlapped = true}}) {
    const auto pipeline =
        SyncPipeline::Create(options, &layout, ops, {}, {theta.data(), theta.data()});
    EXPECT_EQ(pipeline.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(pipeline.status().message()), HasSubstr("overlap"));
  }
}

}  // namespace
}  // namespace longwave
