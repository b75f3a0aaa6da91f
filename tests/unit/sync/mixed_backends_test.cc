// CPU workers and GPU workers in one run: the pipelines of both backends, the CUDA one emulated,
// through the real aggregator of a shard.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "kernels/device_floats.h"
#include "server/shard/aggregator.h"
#include "tests/support/sent_frame.h"
#include "worker/models/adamw.h"
#include "worker/sync/pipeline.h"

namespace longwave {
namespace {

constexpr double kLearningRate = 0.01;

Layout SmallLayout(Tiling tiling) {
  const Manifest manifest = {
      .tensors = {{"embedding", {100, 70}}, {"bias", {70}}, {"conv", {64, 4, 4, 4}}, {"g", {}}}};
  LayoutOptions options;
  options.tiling = tiling;
  options.segment_tiles = 1;  // many segments: encodings and copies overlap
  return *Layout::Create(manifest, options);
}

std::vector<float> Noise(size_t count, uint64_t seed, double scale) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(scale * (rng.Uniform() + rng.Uniform() - 1));
  }
  return values;
}

const KernelOps* Ops(BackendKind kind) { return *OpsFor(kind); }

// A worker's dense arrays on its device, and the parts that work on them.
class Worker {
 public:
  Worker(BackendKind kind, const SyncOptions& sync, const Layout* layout)
      : ops_(Ops(kind)),
        count_(layout->parameter_count()),
        coefficient_count_(layout->coefficient_count()),
        theta_(*DeviceFloats::Create(ops_, count_)),
        gradient_(*DeviceFloats::Create(ops_, count_)),
        optimizer_(*AdamW::Create({.beta2 = 0.99, .weight_decay = 0.1}, ops_, {},
                                  {{0, 999, true}, {999, count_ - 999}})) {
    Write(theta_, Noise(count_, 1, 0.1));
    pipeline_ = *SyncPipeline::Create(sync, layout, ops_, {}, {theta_.get(), gradient_.get()});
  }

  SyncPipeline& pipeline() { return *pipeline_; }
  std::vector<float> theta() const { return Read(theta_.get(), count_); }
  std::vector<float> momentum() const { return Read(pipeline_->momentum(), coefficient_count_); }

  // A change as by H inner steps, or one. The range is wide, so that ties and roundings happen.
  void Train(uint64_t seed) {
    std::vector<float> theta = this->theta();
    const std::vector<float> noise = Noise(count_, seed, 0.01);
    for (size_t i = 0; i < count_; ++i) theta[i] += noise[i];
    Write(theta_, theta);
  }
  void SetGradient(uint64_t seed) { Write(gradient_, Noise(count_, seed, 1.0)); }

  // The optimizer's step with the merged gradient, clipped.
  void InnerStep() {
    ASSERT_TRUE(ClipToNorm(*ops_, {}, 0.5, gradient_.get(), count_).ok());
    ASSERT_TRUE(optimizer_.Step(gradient_.get(), kLearningRate, theta_.get()).ok());
  }

 private:
  void Write(const DeviceFloats& to, const std::vector<float>& values) {
    LONGWAVE_CHECK(ops_->copy({}, to.get(), values.data(), values.size() * sizeof(float)).ok());
    LONGWAVE_CHECK(ops_->wait({}).ok());
  }
  std::vector<float> Read(const float* from, size_t count) const {
    std::vector<float> values(count);
    LONGWAVE_CHECK(ops_->copy({}, values.data(), from, count * sizeof(float)).ok());
    LONGWAVE_CHECK(ops_->wait({}).ok());
    return values;
  }

  const KernelOps* const ops_;
  const size_t count_, coefficient_count_;
  const DeviceFloats theta_, gradient_;
  AdamW optimizer_;
  std::unique_ptr<SyncPipeline> pipeline_;
};

// A CPU worker and a GPU worker.
class Mixed {
 public:
  Mixed(const SyncOptions& sync, AggregatorOptions aggregation, Tiling tiling)
      : layout_(SmallLayout(tiling)),
        workers_{std::make_unique<Worker>(BackendKind::kCpu, sync, &layout_),
                 std::make_unique<Worker>(BackendKind::kCuda, sync, &layout_)} {
    aggregation.run = 1;
    aggregation.run_seed = sync.run_seed;
    aggregation.up = sync.up;
    aggregator_ = std::make_unique<Aggregator>(*Aggregator::Create(aggregation, layout_));
    Membership membership{.epoch = 1, .members = {}};
    for (uint32_t i = 0; i < 2; ++i) {
      membership.members.push_back({.worker = i, .name = std::to_string(i)});
    }
    aggregator_->Step(MembershipChanged{membership}, absl::UnixEpoch());
  }

  Worker& worker(uint32_t i) { return *workers_[i]; }

  void Sync(uint32_t round) {
    for (auto& worker : workers_) {
      ASSERT_TRUE(worker->pipeline().BeginFragment(round, 0, kLearningRate).ok());
    }
    std::vector<SentFrame<MergedFrame>> merged;
    for (uint32_t i = 0; i < 2; ++i) Push(round, i, &merged);
    ASSERT_EQ(merged.size(), layout_.segments().size());
    for (auto& worker : workers_) {
      for (const auto& update : merged) {
        const absl::Status applied =
            worker->pipeline().Apply(update.header.segment, update.payload);
        ASSERT_TRUE(applied.ok()) << applied;
      }
      ASSERT_TRUE(worker->pipeline().EndFragment().ok());
    }
  }

  void ExpectEqualReplicas() {
    EXPECT_EQ(*worker(0).pipeline().Hashes(), *worker(1).pipeline().Hashes());
    EXPECT_EQ(worker(0).theta(), worker(1).theta());
  }

 private:
  void Push(uint32_t round, uint32_t from, std::vector<SentFrame<MergedFrame>>* merged) {
    for (uint32_t segment = 0; segment < layout_.segments().size(); ++segment) {
      auto push = worker(from).pipeline().Encode(segment);
      ASSERT_TRUE(push.ok()) << push.status();
      PushFrame header{.run = 1, .epoch = 1, .round = round};
      header.worker = from;
      header.segment = segment;
      header.weight = from + 1;
      header.norm = push->norm;
      for (const ShardEffect& effect :
           aggregator_->Step(PushArrived{header, push->payload}, absl::UnixEpoch())) {
        if (const auto answer = SentIn<AnswerFrame>(effect)) {
          ASSERT_EQ(answer->header.outcome, Outcome::kAccepted) << answer->reason();
        } else if (auto sent = SentIn<MergedFrame>(effect)) {
          merged->push_back(*std::move(sent));
        }
      }
    }
  }

  const Layout layout_;
  std::array<std::unique_ptr<Worker>, 2> workers_;
  std::unique_ptr<Aggregator> aggregator_;
};

constexpr PayloadFormat kFormats[] = {{Selection::kTopK, ValueCodec::kSign, 64},
                                      {Selection::kTopK, ValueCodec::kInt2, 33},
                                      {Selection::kRandom, ValueCodec::kInt8, 64},
                                      {Selection::kAll, ValueCodec::kInt4, 0},
                                      {Selection::kAll, ValueCodec::kFp32, 0}};

struct Case {
  UpdateKind update;
  Transform transform;
  PayloadFormat up;
  Tiling tiling;
};

std::vector<Case> Cases(std::initializer_list<UpdateKind> updates) {
  std::vector<Case> cases;
  for (const UpdateKind update : updates) {
    for (const Transform transform : {Transform::kNone, Transform::kDct}) {
      for (const PayloadFormat& up : kFormats) {
        for (const Tiling tiling : {Tiling::kModel, Tiling::kFlat}) {
          cases.push_back({update, transform, up, tiling});
        }
      }
    }
  }
  return cases;
}

SyncOptions OptionsOf(const Case& setting) {
  return {.transform = setting.transform,
          .up = setting.up,
          .beta = 0.95f,
          .update = setting.update,
          .eta = 0.7f,
          .mu = 0.9f,
          .weight_decay = 0.01f,
          .run_seed = 7};
}

std::string Name(const Case& setting) {
  return std::to_string(static_cast<int>(setting.update)) + " transform " +
         std::to_string(static_cast<int>(setting.transform)) + " up " +
         std::to_string(static_cast<int>(setting.up.codec)) + " tiling " +
         std::to_string(static_cast<int>(setting.tiling));
}

// The format of updates for topk pushes is the shard's own choice.
PayloadFormat DownOf(const PayloadFormat& up) {
  return up.selection == Selection::kTopK ? PayloadFormat{Selection::kTopK, ValueCodec::kInt2, 128}
                                          : PayloadFormat{Selection::kAll, up.codec, 0};
}

TEST(MixedBackends, PseudoGradientsKeepReplicasEqualUnderEveryRule) {
  for (const Case& setting : Cases({UpdateKind::kSgd, UpdateKind::kSign, UpdateKind::kNesterov})) {
    SCOPED_TRACE("rule " + Name(setting));
    Mixed mixed(OptionsOf(setting), {.rho = 0.25, .down = DownOf(setting.up)}, setting.tiling);
    for (uint32_t round = 0; round < 3; ++round) {
      for (uint32_t i = 0; i < 2; ++i) mixed.worker(i).Train(100 * round + i);
      mixed.Sync(round);
      mixed.ExpectEqualReplicas();
    }
  }
}

TEST(MixedBackends, TheInnerOptimizersStepKeepsReplicasEqual) {
  for (const Case& setting : Cases({UpdateKind::kInner})) {
    SCOPED_TRACE("rule " + Name(setting));
    SyncOptions options = OptionsOf(setting);
    options.pseudo_gradient = false;
    options.weight_decay = 0;
    Mixed mixed(options, {.rho = 1, .down = DownOf(setting.up)}, setting.tiling);
    for (uint32_t round = 0; round < 3; ++round) {
      for (uint32_t i = 0; i < 2; ++i) mixed.worker(i).SetGradient(100 * round + i);
      mixed.Sync(round);
      for (uint32_t i = 0; i < 2; ++i) mixed.worker(i).InnerStep();
      mixed.ExpectEqualReplicas();
    }
  }
}

// `apply: local` promises no equal replicas; both backends must take it through all the same.
TEST(MixedBackends, LocalUpdatesRunOnBoth) {
  for (const Case& setting : Cases({UpdateKind::kLocal})) {
    SCOPED_TRACE("rule " + Name(setting));
    SyncOptions options = OptionsOf(setting);
    options.weight_decay = 0;
    Mixed mixed(options, {.down = DownOf(setting.up)}, setting.tiling);
    for (uint32_t round = 0; round < 2; ++round) {
      for (uint32_t i = 0; i < 2; ++i) mixed.worker(i).Train(100 * round + i);
      mixed.Sync(round);
    }
  }
}

class EncodingAhead : public testing::Test {
 protected:
  std::unique_ptr<Worker> Make() {
    auto worker =
        std::make_unique<Worker>(BackendKind::kCuda,
                                 SyncOptions{.transform = Transform::kDct,
                                             .up = {Selection::kTopK, ValueCodec::kSign, 64},
                                             .beta = 0.5f},
                                 &layout_);
    worker->Train(5);
    EXPECT_TRUE(worker->pipeline().BeginFragment(0, 0, kLearningRate).ok());
    return worker;
  }
  static std::vector<std::byte> Payload(Worker& worker, uint32_t segment) {
    const auto push = worker.pipeline().Encode(segment);
    EXPECT_TRUE(push.ok()) << push.status();
    return {push->payload.bytes().begin(), push->payload.bytes().end()};
  }
  uint32_t segments() const { return static_cast<uint32_t>(layout_.segments().size()); }

  const Layout layout_ = SmallLayout(Tiling::kModel);
};

TEST_F(EncodingAhead, GivesWhatEachSegmentAloneGives) {
  const auto in_order = Make(), backwards = Make();
  std::vector<std::vector<std::byte>> ahead, alone(segments());
  for (uint32_t s = 0; s < segments(); ++s) ahead.push_back(Payload(*in_order, s));
  for (uint32_t s = segments(); s-- > 0;) alone[s] = Payload(*backwards, s);
  EXPECT_EQ(ahead, alone);
  EXPECT_EQ(in_order->momentum(), backwards->momentum());
}

TEST_F(EncodingAhead, OfARoundThatIsGivenUpGoesBackIntoTheResidual) {
  ASSERT_GE(segments(), 3u);
  auto worker = Make();
  Payload(*worker, 0);  // the next one is under way now
  ASSERT_TRUE(worker->pipeline().BeginFragment(1, 0, kLearningRate).ok());
  const std::vector<float> given_up = worker->momentum();
  worker = Make();
  Payload(*worker, 0);
  Payload(*worker, 1);
  ASSERT_TRUE(worker->pipeline().Restore(1).ok());
  const std::vector<float> restored = worker->momentum();
  const uint64_t begin = layout_.segments()[1].coefficient_begin;
  const uint64_t end = layout_.segments()[2].coefficient_begin;
  EXPECT_TRUE(
      std::equal(given_up.begin() + begin, given_up.begin() + end, restored.begin() + begin));
  EXPECT_TRUE(std::any_of(given_up.begin() + begin, given_up.begin() + end,
                          [](float value) { return value != 0; }));
}

TEST_F(EncodingAhead, BeginsNoSegmentThatIsNotInTheOrder) {
  ASSERT_GE(segments(), 3u);
  auto worker = Make();
  const std::vector<uint32_t> order = {2, 0};
  ASSERT_TRUE(worker->pipeline().BeginFragment(1, 0, kLearningRate, order).ok());
  Payload(*worker, 2);
  Payload(*worker, 0);
  const std::vector<float> momentum = worker->momentum();
  const auto moved = [&](uint32_t s) {
    const Segment& segment = layout_.segments()[s];
    const auto begin = momentum.begin() + static_cast<ptrdiff_t>(segment.coefficient_begin);
    return std::any_of(begin, begin + static_cast<ptrdiff_t>(segment.coefficient_count),
                       [](float value) { return value != 0; });
  };
  EXPECT_TRUE(moved(0) && moved(2));
  EXPECT_FALSE(moved(1));
}

TEST_F(EncodingAhead, LeavesAPayloadAloneThatIsStillHeld) {
  auto worker = Make();
  const SyncPipeline::Push held = *worker->pipeline().Encode(0);
  const std::vector<std::byte> sent(held.payload.bytes().begin(), held.payload.bytes().end());
  for (uint32_t s = 1; s < segments(); ++s) Payload(*worker, s);
  for (uint32_t round = 1; round < 3; ++round) {
    worker->Train(round);
    ASSERT_TRUE(worker->pipeline().BeginFragment(round, 0, kLearningRate).ok());
    for (uint32_t s = 0; s < segments(); ++s) EXPECT_NE(Payload(*worker, s), sent);
  }
  EXPECT_TRUE(std::ranges::equal(held.payload.bytes(), sent));
}

TEST_F(EncodingAhead, IsWaitedForByAPipelineThatEnds) {
  auto worker = Make();
  Payload(*worker, 0);
  worker.reset();  // under the address sanitizer a copy into freed memory is an error
  EXPECT_TRUE(Ops(BackendKind::kCuda)->wait({}).ok());
}

}  // namespace
}  // namespace longwave
