#ifndef LONGWAVE_TESTS_UNIT_WORKER_TRAINER_CATCH_UP_TESTING_H_
#define LONGWAVE_TESTS_UNIT_WORKER_TRAINER_CATCH_UP_TESTING_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "common/wire/snapshot_payload.h"
#include "kernels/ops.h"
#include "tests/unit/worker/trainer/trainer_testing.h"
#include "worker/trainer/catch_up.h"

namespace longwave {

inline const KernelOps& Cpu() { return **OpsFor(BackendKind::kCpu); }

// A replica: arrays, and the pipeline on them.
struct Worker {
  Worker(const SyncOptions& options, const Layout& layout, std::vector<float> start)
      : theta(std::move(start)) {
    auto made = SyncPipeline::Create(options, &layout, &Cpu(), {}, {theta.data(), nullptr});
    EXPECT_TRUE(made.ok()) << made.status();
    pipeline = *std::move(made);
  }
  std::vector<uint64_t> hashes() const { return *pipeline->Hashes(); }
  std::vector<float> momentum() const { return *pipeline->ExportMomentum(); }

  std::vector<float> theta;
  std::unique_ptr<SyncPipeline> pipeline;
};

// A peer that trains alone fills the shards' log; its hashes are what whoever catches up must have.
class CatchUpTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.up = {.selection = Selection::kTopK, .codec = ValueCodec::kFp32, .k = 3};
    options_.beta = 0.5f;
    options_.eta_follows_learning_rate = true;
    std::iota(start_.begin(), start_.end(), 1.0f);
    Make();
  }

  void Make() {
    ASSERT_GE(segments(), 3u);
    peer_ = std::make_unique<Worker>(options_, layout_, start_);
    worker_ = std::make_unique<Worker>(options_, layout_, start_);
    shards_ = std::make_unique<FakeShards>(segments());
    hashes_ = {peer_->hashes()};
  }

  uint32_t segments() const { return static_cast<uint32_t>(layout_.segments().size()); }
  static double LearningRate(uint32_t round) { return 1.0 / (1 + round); }

  // The peer's next round. Its updates are in the log at once, or when the test lets them be.
  std::vector<Buffer> PeerRound() {
    const auto round = static_cast<uint32_t>(hashes_.size() - 1);
    SyncPipeline& pipeline = *peer_->pipeline;
    std::vector<Buffer> merged;
    for (uint32_t fragment = 0; fragment < pipeline.fragment_count(); ++fragment) {
      for (size_t i = 0; i < peer_->theta.size(); ++i) {
        peer_->theta[i] += std::sin(static_cast<float>(17 * i + 5 * round + fragment));
      }
      EXPECT_TRUE(pipeline.BeginFragment(round, fragment, LearningRate(round)).ok());
      for (uint32_t s = fragment; s < segments(); s += pipeline.fragment_count()) {
        auto push = pipeline.Encode(s);
        EXPECT_TRUE(push.ok()) << push.status();
        EXPECT_TRUE(pipeline.Apply(s, push->payload).ok());
        if (merged.size() <= s) merged.resize(s + 1);
        merged[s] = push->payload;
      }
      EXPECT_TRUE(pipeline.EndFragment().ok());
    }
    hashes_.push_back(peer_->hashes());
    return merged;
  }
  void CloseRounds(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      const std::vector<Buffer> merged = PeerRound();
      for (uint32_t s = 0; s < segments(); ++s) shards_->logs[s].push_back(merged[s]);
    }
  }
  Buffer PeerSnapshot(uint32_t segment) {
    const auto arrays = *peer_->pipeline->ExportSegment(segment);
    return EncodeSnapshotPayload(std::vector<std::span<const float>>(arrays.begin(), arrays.end()));
  }

  CatchUpParts Parts() {
    return {.layout = &layout_,
            .pipeline = worker_->pipeline.get(),
            .exchange = shards_.get(),
            .host = &host_,
            .rounds = 100,
            .learning_rate = [](uint32_t round, uint32_t) { return LearningRate(round); },
            .initial_weights =
                [this] {
                  ++initial_made_;
                  return start_;
                },
            .clear_gradient = [] { return absl::OkStatus(); },
            .before_fill =
                [this](uint32_t round, uint32_t fragment, std::span<const SegmentPush> pushes) {
                  EXPECT_TRUE(shards_->pending.empty());
                  before_fill_.push_back({.round = round,
                                          .fragment = fragment,
                                          .momentum = worker_->momentum(),
                                          .accounted = worker_->pipeline->Accounted(),
                                          .pushes = Copies(pushes)});
                  for (const SegmentPush& push : pushes)
                    before_fill_.back().accounted[push.segment] = push.accounted;
                  return absl::OkStatus();
                },
            .on_fate = [this](Fate fate) { fates_.push_back(fate); },
            .fill_patience = absl::ZeroDuration()};
  }
  absl::StatusOr<uint32_t> Join() {
    CatchUp catch_up(Parts());
    return catch_up.Join();
  }
  // As a file has them.
  static std::vector<UnsettledPush> Copies(std::span<const SegmentPush> pushes) {
    std::vector<UnsettledPush> copies;
    for (const SegmentPush& push : pushes) {
      std::vector<std::byte> bytes(push.payload.bytes().begin(), push.payload.bytes().end());
      copies.push_back({.segment = push.segment,
                        .norm = push.norm,
                        .weight = push.weight,
                        .payload = Buffer(std::move(bytes))});
    }
    return copies;
  }
  // Encodes what the worker would push to `round`, with some progress in θ, as a process that died
  // after having written it down.
  Checkpoint Crash(uint32_t round) {
    SyncPipeline& pipeline = *worker_->pipeline;
    for (size_t i = 0; i < worker_->theta.size(); ++i) {
      worker_->theta[i] += std::cos(static_cast<float>(3 * i + round));
    }
    EXPECT_TRUE(pipeline.BeginFragment(round, 0, LearningRate(round)).ok());
    Checkpoint checkpoint{.round = round, .accounted = pipeline.Accounted()};
    for (uint32_t s = 0; s < segments(); s += pipeline.fragment_count()) {
      auto push = pipeline.Encode(s);
      EXPECT_TRUE(push.ok()) << push.status();
      const SegmentPush posted = {
          .segment = s, .payload = push->payload, .norm = push->norm, .weight = 5};
      checkpoint.pushes.push_back(Copies({&posted, 1})[0]);
    }
    checkpoint.momentum = worker_->momentum();
    worker_ = std::make_unique<Worker>(options_, layout_, start_);
    return checkpoint;
  }
  // What the checkpoint's process had in its residual before it encoded, of one segment.
  std::vector<float> MomentumBefore(const Checkpoint& checkpoint, uint32_t segment) {
    Worker other(options_, layout_, start_);
    EXPECT_TRUE(other.pipeline->LoadMomentum(checkpoint.momentum).ok());
    EXPECT_TRUE(
        other.pipeline->RestoreFrom(segment, checkpoint.round, checkpoint.pushes[segment].payload)
            .ok());
    return Part(other.momentum(), segment);
  }
  std::vector<float> Part(const std::vector<float>& coefficients, uint32_t segment) const {
    const auto begin = coefficients.begin() +
                       static_cast<ptrdiff_t>(layout_.segments()[segment].coefficient_begin);
    return {begin, begin + static_cast<ptrdiff_t>(layout_.segments()[segment].coefficient_count)};
  }

  std::vector<std::vector<float>> Given(size_t index) const {
    const auto& [ask, payload] = shards_->given[index];
    const auto arrays =
        DecodeSnapshotPayload(payload.bytes(), 1, worker_->pipeline->segment_elements(ask.segment));
    EXPECT_TRUE(arrays.ok()) << arrays.status();
    return arrays.ok() ? *arrays : std::vector<std::vector<float>>();
  }

  void ExpectAt(uint32_t round) {
    EXPECT_EQ(worker_->hashes(), hashes_[round]);
    for (uint32_t s = 0; s < segments(); ++s) {
      EXPECT_EQ(worker_->pipeline->anchor_round(s), round);
    }
    const float* anchor = worker_->pipeline->anchor();
    EXPECT_EQ(worker_->theta, std::vector<float>(anchor, anchor + worker_->theta.size()));
  }

  const Layout layout_ = *Layout::Create(
      {{{"w", {8, 16}}, {"b", {24}}}}, {.tiling = Tiling::kTensor, .block = 8, .segment_tiles = 1});
  SyncOptions options_;
  std::vector<float> start_ = std::vector<float>(8 * 16 + 24);
  std::unique_ptr<Worker> peer_, worker_;
  std::unique_ptr<FakeShards> shards_;
  RecordingHost host_;
  std::vector<std::vector<uint64_t>> hashes_;  // of the peer, before each round
  int initial_made_ = 0;
  std::vector<Checkpoint> before_fill_;
  std::vector<Fate> fates_;  // of contributions, as they were told
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_WORKER_TRAINER_CATCH_UP_TESTING_H_
