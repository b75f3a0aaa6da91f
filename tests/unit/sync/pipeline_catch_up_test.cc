#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <map>

#include "common/layout/segment_elements.h"
#include "tests/support/lockstep.h"
#include "worker/sync/pipeline.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorkers = 2;
constexpr uint32_t kRounds = 5;

std::vector<float> Start() { return Noise(ParameterCount(SmallModel()), 1, 0.1); }

double LearningRate(uint32_t round) { return 1e-3 * (1 + round); }

// A method, and how the model is cut.
struct Method {
  std::string name;
  SyncOptions sync;
  AggregatorOptions aggregation;
  Tiling tiling = Tiling::kModel;
};

std::vector<Method> Methods() {
  const PayloadFormat topk = {Selection::kTopK, ValueCodec::kInt2, 32};
  const PayloadFormat down = {Selection::kTopK, ValueCodec::kInt4, 64};
  std::vector<Method> methods;
  const auto add = [&](std::string name, SyncOptions sync, AggregatorOptions aggregation = {}) {
    sync.run_seed = 7;
    for (const Tiling tiling : {Tiling::kModel, Tiling::kTensor, Tiling::kFlat}) {
      // A flat tiling sees no shapes, and is for methods without a transform.
      if (tiling == Tiling::kFlat && sync.transform == Transform::kDct) continue;
      methods.push_back({.name = name + (sync.transform == Transform::kDct ? ", dct" : "") +
                                 ", tiling " + std::to_string(static_cast<int>(tiling)),
                         .sync = sync,
                         .aggregation = aggregation,
                         .tiling = tiling});
    }
  };
  for (const Transform transform : {Transform::kNone, Transform::kDct}) {
    add("sgd", {.transform = transform, .up = topk, .beta = 0.9f, .eta = 0.8f},
        {.rho = 0.25, .down = down});
    add("sgd, decay", {.transform = transform,
                       .up = topk,
                       .beta = 0.9f,
                       .eta_follows_learning_rate = true,
                       .weight_decay = 0.1f});
    add("nesterov", {.transform = transform,
                     .up = topk,
                     .update = UpdateKind::kNesterov,
                     .eta = 0.7f,
                     .mu = 0.9f});
    add("sign of the gradient's", {.pseudo_gradient = false,
                                   .scale_by_learning_rate = true,
                                   .transform = transform,
                                   .up = topk,
                                   .beta = 0.99f,
                                   .update = UpdateKind::kSign,
                                   .eta_follows_learning_rate = true});
    add("random", {.transform = transform,
                   .up = {Selection::kRandom, ValueCodec::kBf16, 32},
                   .update = UpdateKind::kNesterov,
                   .eta = 0.7f,
                   .mu = 0.9f});
    add("fragments", {.transform = transform, .up = topk, .beta = 0.9f, .fragments = 2});
    add("overlap", {.transform = transform, .up = topk, .overlapped = true, .blend = 0.5f});
  }
  return methods;
}

// A cluster with its log, and a worker that was away.
class CatchingUp {
 public:
  explicit CatchingUp(const Method& method) : method_(method), theta_(Start()), gradient_(theta_) {
    auto cluster = Lockstep::Create(SmallModel(), {.tiling = method.tiling, .segment_tiles = 2},
                                    method.sync, method.aggregation, kWorkers, theta_);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    pipeline_ = SyncPipeline::Create(method.sync, &layout(), OpsFor(BackendKind::kCpu).value(), {},
                                     {.theta = theta_.data(), .gradient = gradient_.data()})
                    .value();
  }

  // The others' next round.
  void Round() {
    for (uint32_t f = 0; f < pipeline_->fragment_count(); ++f) {
      for (uint32_t i = 0; i < kWorkers; ++i) {
        const auto noise = Noise(theta_.size(), 1000 * rounds_ + 10 * f + i, 0.01);
        for (size_t e = 0; e < noise.size(); ++e) {
          cluster_->theta(i)[e] += method_.sync.pseudo_gradient ? noise[e] : 0;
          cluster_->gradient(i)[e] = noise[e];
        }
      }
      const absl::Status sent = cluster_->Send(rounds_, f, LearningRate(rounds_));
      ASSERT_TRUE(sent.ok()) << sent;
      for (const auto& merged : cluster_->merged()) {
        log_[{rounds_, merged.header.segment}] = merged.payload;
      }
      ASSERT_TRUE(cluster_->Apply().ok());
    }
    ++rounds_;
  }

  // Round after round for each segment, last segment first.
  void CatchUp() {
    for (uint32_t s = segment_count(); s-- > 0;) {
      while (pipeline_->anchor_round(s) < rounds_) {
        const uint32_t round = pipeline_->anchor_round(s);
        const absl::Status caught_up =
            pipeline_->CatchUp(s, round, LearningRate(round), log_.at({round, s}));
        ASSERT_TRUE(caught_up.ok()) << caught_up;
      }
    }
  }

  void LoadFromWorker(uint32_t segment) {
    const auto arrays = cluster_->pipeline(0).ExportSegment(segment).value();
    const absl::Status loaded = pipeline_->LoadSegment(segment, rounds_, arrays);
    ASSERT_TRUE(loaded.ok()) << loaded;
  }

  // The anchor and all that belongs to it.
  void ExpectAsTheOthers() {
    EXPECT_EQ(pipeline_->Hashes().value(), cluster_->pipeline(0).Hashes().value());
    for (uint32_t s = 0; s < segment_count(); ++s) {
      EXPECT_EQ(pipeline_->anchor_round(s), cluster_->pipeline(0).anchor_round(s));
      const auto mine = pipeline_->ExportSegment(s).value();
      const auto others = cluster_->pipeline(0).ExportSegment(s).value();
      ASSERT_EQ(mine.size(), others.size());
      for (size_t a = 0; a < mine.size(); ++a) {
        ASSERT_EQ(mine[a].size(), others[a].size());
        for (size_t e = 0; e < mine[a].size(); ++e) {
          ASSERT_EQ(std::bit_cast<uint32_t>(mine[a][e]), std::bit_cast<uint32_t>(others[a][e]))
              << "segment " << s << ", array " << a << ", element " << e;
        }
      }
    }
  }

  const Layout& layout() { return cluster_->layout(); }
  uint32_t segment_count() { return static_cast<uint32_t>(layout().segments().size()); }
  Lockstep& cluster() { return *cluster_; }
  SyncPipeline& pipeline() { return *pipeline_; }
  std::vector<float>& theta() { return theta_; }
  const Buffer& Merged(uint32_t round, uint32_t segment) { return log_.at({round, segment}); }

 private:
  const Method method_;
  std::unique_ptr<Lockstep> cluster_;
  std::vector<float> theta_, gradient_;
  std::unique_ptr<SyncPipeline> pipeline_;
  std::map<std::pair<uint32_t, uint32_t>, Buffer> log_;
  uint32_t rounds_ = 0;
};

TEST(PipelineCatchUp, TheLogLeadsToTheBitsOfThoseWhoWereThere) {
  for (const Method& method : Methods()) {
    SCOPED_TRACE(method.name);
    CatchingUp one(method);
    for (uint32_t round = 0; round < kRounds; ++round) one.Round();
    one.CatchUp();
    one.ExpectAsTheOthers();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(PipelineCatchUp, AnotherOnesStateAndTheLogAfterItLeadToTheSameBits) {
  for (const Method& method : Methods()) {
    SCOPED_TRACE(method.name);
    CatchingUp one(method);
    // Segments of all ages: the second is loaded after two rounds, the first after three.
    for (uint32_t round = 0; round < kRounds; ++round) {
      one.Round();
      if (round == 1 && one.segment_count() > 1) one.LoadFromWorker(1);
      if (round == 2) one.LoadFromWorker(0);
    }
    one.CatchUp();
    one.ExpectAsTheOthers();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(PipelineCatchUp, WhoHasCaughtUpGoesOnWithTheOthers) {
  for (const Method& method : Methods()) {
    if (method.sync.overlapped || method.sync.fragments > 1) continue;
    SCOPED_TRACE(method.name);
    CatchingUp one(method);
    for (uint32_t round = 0; round < kRounds; ++round) one.Round();
    one.CatchUp();
    ASSERT_TRUE(one.pipeline().AdoptAnchor().ok());
    EXPECT_TRUE(std::equal(one.theta().begin(), one.theta().end(), one.cluster().theta(0).begin()));
    // A round of the others, in which its own contribution is late.
    one.Round();
    if (method.sync.pseudo_gradient) {
      for (float& theta : one.theta()) theta += 0.01f;
    }
    SyncPipeline& pipeline = one.pipeline();
    ASSERT_TRUE(pipeline.BeginFragment(kRounds, 0, LearningRate(kRounds)).ok());
    for (uint32_t s = 0; s < one.segment_count(); ++s) {
      ASSERT_TRUE(pipeline.Encode(s).ok());
      ASSERT_TRUE(pipeline.Restore(s).ok());
      ASSERT_TRUE(pipeline.Apply(s, one.Merged(kRounds, s)).ok());
    }
    ASSERT_TRUE(pipeline.EndFragment().ok());
    one.ExpectAsTheOthers();
    EXPECT_TRUE(std::equal(one.theta().begin(), one.theta().end(), one.cluster().theta(0).begin()));
    if (::testing::Test::HasFailure()) return;
  }
}

Method Sgd() { return Methods()[0]; }

Method Nesterov() {
  for (const Method& method : Methods()) {
    if (method.sync.update == UpdateKind::kNesterov) return method;
  }
  return {};
}

// A fragment in progress whose updates are compacted; some segments have theirs.
TEST(PipelineCatchUp, EndsARoundOfWhichSomethingIsMissing) {
  CatchingUp one(Nesterov());
  one.Round();
  one.Round();
  SyncPipeline& pipeline = one.pipeline();
  for (float& theta : one.theta()) theta += 0.01f;
  ASSERT_TRUE(pipeline.BeginFragment(0, 0, LearningRate(0)).ok());
  ASSERT_TRUE(pipeline.Encode(0).ok());
  ASSERT_TRUE(pipeline.Apply(0, one.Merged(0, 0)).ok());
  EXPECT_EQ(pipeline.EndFragment().code(), absl::StatusCode::kFailedPrecondition);
  one.CatchUp();
  ASSERT_TRUE(pipeline.AdoptAnchor().ok());
  one.ExpectAsTheOthers();
  EXPECT_TRUE(std::equal(one.theta().begin(), one.theta().end(), one.cluster().theta(0).begin()));
  // The part that the round took from the residual can still be given back.
  EXPECT_TRUE(pipeline.Restore(0).ok());
}

// Repaired by a snapshot that led further than it was to: the round's update is in it.
TEST(PipelineCatchUp, AnUpdateThatASnapshotHasIsNotAppliedOnTopOfIt) {
  CatchingUp one(Nesterov());
  one.Round();
  one.Round();
  SyncPipeline& pipeline = one.pipeline();
  ASSERT_TRUE(pipeline.BeginFragment(0, 0, LearningRate(0)).ok());
  ASSERT_TRUE(pipeline.Encode(0).ok());
  one.LoadFromWorker(0);
  const std::vector<uint64_t> loaded = pipeline.Hashes().value();
  const absl::Status applied = pipeline.Apply(0, one.Merged(0, 0));
  EXPECT_EQ(applied.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(applied.message(), HasSubstr("got the merged update of round 0, wanted that of "
                                           "round 2"));
  EXPECT_EQ(pipeline.Hashes().value(), loaded);
}

TEST(PipelineCatchUp, ExportsElementsInTheOrderOfTheFlatArray) {
  for (const Tiling tiling : {Tiling::kModel, Tiling::kTensor, Tiling::kFlat}) {
    Method method = Nesterov();
    method.sync.transform = Transform::kNone;
    method.tiling = tiling;
    CatchingUp one(method);
    EXPECT_EQ(one.pipeline().segment_arrays(), 2u);
    const std::vector<uint64_t> hashes = one.pipeline().Hashes().value();
    for (uint32_t s = 0; s < one.segment_count(); ++s) {
      const auto arrays = one.pipeline().ExportSegment(s).value();
      EXPECT_EQ(arrays[0].size(), one.pipeline().segment_elements(s));
      EXPECT_EQ(SegmentStateHash(one.layout(), s, arrays), hashes[s]);
      EXPECT_EQ(arrays[1], std::vector<float>(arrays[0].size()));  // no velocity yet
    }
  }
}

// Equal parameters are not enough: the next update is applied to the velocity as well.
TEST(PipelineCatchUp, AVelocityThatDiffersIsSeenInTheHash) {
  CatchingUp one(Nesterov());
  one.Round();
  SyncPipeline& pipeline = one.pipeline();
  const std::vector<uint64_t> before = pipeline.Hashes().value();
  std::vector<std::vector<float>> arrays = pipeline.ExportSegment(0).value();
  arrays[1][0] += 1;
  ASSERT_TRUE(pipeline.LoadSegment(0, 1, arrays).ok());
  const std::vector<uint64_t> after = pipeline.Hashes().value();
  EXPECT_NE(after[0], before[0]);
  EXPECT_EQ(after[0], SegmentStateHash(one.layout(), 0, arrays));
  for (uint32_t s = 1; s < one.segment_count(); ++s) EXPECT_EQ(after[s], before[s]);
}

TEST(PipelineCatchUp, TakesTheRoundsInOrder) {
  CatchingUp one(Sgd());
  one.Round();
  one.Round();
  SyncPipeline& pipeline = one.pipeline();
  const absl::Status ahead = pipeline.CatchUp(0, 1, LearningRate(1), one.Merged(1, 0));
  EXPECT_EQ(ahead.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(ahead.message(), HasSubstr("got the update of round 1, wanted that of round 0"));
  EXPECT_TRUE(pipeline.CatchUp(0, 0, LearningRate(0), one.Merged(0, 0)).ok());
  EXPECT_EQ(pipeline.CatchUp(0, 0, LearningRate(0), one.Merged(0, 0)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(pipeline.CatchUp(0, 1, LearningRate(1), Buffer()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pipeline.anchor_round(0), 1u);
  EXPECT_EQ(pipeline.anchor_round(1), 0u);
}

TEST(PipelineCatchUp, RefusesStatesThatDoNotFit) {
  CatchingUp one(Nesterov());
  SyncPipeline& pipeline = one.pipeline();
  auto arrays = pipeline.ExportSegment(0).value();
  arrays[1].pop_back();
  EXPECT_EQ(pipeline.LoadSegment(0, 3, arrays).code(), absl::StatusCode::kInvalidArgument);
  arrays.pop_back();
  EXPECT_THAT(pipeline.LoadSegment(0, 3, arrays).message(), HasSubstr("got 1 arrays, wanted 2"));
  EXPECT_EQ(pipeline.anchor_round(0), 0u);
}

TEST(PipelineCatchUp, RefusesUpdatesOfWhichTheLogIsNotAll) {
  for (const UpdateKind update : {UpdateKind::kInner, UpdateKind::kLocal}) {
    CatchingUp one({.name = "",
                    .sync = {.pseudo_gradient = false, .update = update},
                    .aggregation = {},
                    .tiling = Tiling::kModel});
    const absl::Status refused = one.pipeline().CatchUp(0, 0, 1e-3, Buffer());
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.message(), HasSubstr(update == UpdateKind::kInner ? "inner" : "local"));
    const auto arrays = one.pipeline().ExportSegment(0).value();
    EXPECT_EQ(one.pipeline().LoadSegment(0, 0, arrays).code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST(PipelineCatchUp, RefusesAMomentumThatDoesNotFit) {
  CatchingUp one(Sgd());
  std::vector<float> momentum = one.pipeline().ExportMomentum().value();
  momentum[7] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(one.pipeline().LoadMomentum(momentum).message(), HasSubstr("coefficient 7 is inf"));
  momentum.pop_back();
  EXPECT_EQ(one.pipeline().LoadMomentum(momentum).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(one.pipeline().ExportMomentum().value(),
            std::vector<float>(one.layout().coefficient_count()));
}

}  // namespace
}  // namespace longwave
