#include "worker/checkpoint/recovery.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "common/base/rng.h"
#include "kernels/ops.h"
#include "worker/sync/fragments.h"

namespace longwave {
namespace {

constexpr uint32_t kSegments = 2;

// A worker with two segments, whose copies and records the tests keep.
class RecoveryTest : public ::testing::TestWithParam<float> {  // β
 protected:
  RecoveryTest()
      : layout_(*Layout::Create({.tensors = {{"w", {128, 64}}}},
                                {.segment_tiles = 1, .shard_count = 1})),
        theta_(layout_.parameter_count()),
        pipeline_(*SyncPipeline::Create(options(), &layout_, *OpsFor(BackendKind::kCpu), {},
                                        {.theta = theta_.data()})) {
    EXPECT_EQ(layout_.segments().size(), kSegments);
  }

  static SyncOptions options() {
    return {.up = {Selection::kTopK, ValueCodec::kInt2, 64}, .beta = GetParam(), .run_seed = 3};
  }

  // A round's pushes, recorded.
  void Push() {
    for (float& value : theta_) value += static_cast<float>(rng_.Uniform() - 0.5);
    ASSERT_TRUE(pipeline_->BeginFragment(round_, 0, 1).ok());
    for (uint32_t s = 0; s < kSegments; ++s) {
      const auto push = pipeline_->Encode(s);
      ASSERT_TRUE(push.ok());
      // The encoder uses its memory again.
      const auto bytes = push->payload.bytes();
      payloads_[s] = Buffer(std::vector<std::byte>(bytes.begin(), bytes.end()));
      records_.push_back({.kind = JournalKind::kPush,
                          .segment = s,
                          .round = round_,
                          .accounted = push->accounted,
                          .norm = push->norm,
                          .weight = 5,
                          .step = round_ + 1,
                          .tokens = 10 * (round_ + 1),
                          .payload = payloads_[s]});
    }
    ++round_;
  }
  void Settle(uint32_t segment, JournalKind kind) {
    if (kind == JournalKind::kReturned) {
      EXPECT_TRUE(pipeline_->Restore(segment).ok());
    }
    records_.push_back({.kind = kind, .segment = segment, .round = round_ - 1});
  }
  Checkpoint Copy(const std::vector<UnsettledPush>& pushes = {}) {
    std::vector<uint32_t> unsettled;
    Checkpoint copy{.round = pushes.empty() ? round_ : round_ - 1,
                    .accounted = pipeline_->Accounted(),
                    .pushes = pushes};
    for (const UnsettledPush& push : pushes) {
      unsettled.push_back(push.segment);
      copy.accounted[push.segment] = round_ - 1;
    }
    copy.momentum = *pipeline_->ExportMomentum(unsettled);
    return copy;
  }
  void Apply(Checkpoint* checkpoint) {
    const absl::Status applied = ApplyJournal(layout_, options(), records_, checkpoint);
    ASSERT_TRUE(applied.ok()) << applied;
  }
  std::span<const float> Residual(const std::vector<float>& momentum, uint32_t segment) const {
    const Segment& place = layout_.segments()[segment];
    return std::span(momentum).subspan(place.coefficient_begin, place.coefficient_count);
  }
  // The values that the payload has sent, by coefficient.
  std::vector<float> SentBy(uint32_t segment) const {
    const PayloadLayout form = *PayloadLayout::Create(options().up, layout_.TileSizes(segment));
    std::vector<float> all(layout_.coefficient_count());
    EXPECT_TRUE((*OpsFor(BackendKind::kCpu))
                    ->restore({}, {.layout = &layout_,
                                   .segment = segment,
                                   .run_seed = 3,
                                   .round = round_ - 1,
                                   .momentum = all.data(),
                                   .payload_layout = &form,
                                   .payload = payloads_[segment].bytes()})
                    .ok());
    const auto own = Residual(all, segment);
    return {own.begin(), own.end()};
  }

  Layout layout_;
  std::vector<float> theta_;
  std::unique_ptr<SyncPipeline> pipeline_;
  Rng rng_ = Rng(1, 2);
  uint32_t round_ = 0;
  Buffer payloads_[kSegments];
  std::vector<JournalRecord> records_;
};

TEST_P(RecoveryTest, WithoutRecordsACopyStaysAsItIs) {
  Push();
  records_.clear();
  const Checkpoint copy = Copy();
  Checkpoint recovered = copy;
  Apply(&recovered);
  EXPECT_EQ(recovered, copy);
}

TEST_P(RecoveryTest, WhatWasSentSinceIsZeroAndTheRestDecays) {
  Push();
  const Checkpoint copy = Copy();
  records_.clear();
  Push();
  Checkpoint recovered = copy;
  Apply(&recovered);
  ASSERT_EQ(recovered.pushes.size(), kSegments);
  EXPECT_EQ(recovered.round, 1u);
  EXPECT_EQ(recovered.step, 2u);
  EXPECT_EQ(recovered.tokens, 20u);
  for (uint32_t s = 0; s < kSegments; ++s) {
    EXPECT_EQ(recovered.accounted[s], 1u);  // before the push, which is in flight
    EXPECT_EQ(recovered.pushes[s].payload, payloads_[s]);
    EXPECT_EQ(recovered.pushes[s].weight, 5u);
    const auto before = Residual(copy.momentum, s), after = Residual(recovered.momentum, s);
    const std::vector<float> sent = SentBy(s);
    // β = 0: a copy's residual is what came back, and goes whole with the next push.
    const float decay = GetParam() == 0 ? 1 : GetParam();
    for (size_t i = 0; i < sent.size(); ++i)
      ASSERT_EQ(after[i], sent[i] != 0 ? 0 : decay * before[i]) << i;
  }
}

TEST_P(RecoveryTest, SettledPushesCountOnceAndLateOnesAreInTheResidual) {
  Push();
  const Checkpoint copy = Copy();
  records_.clear();
  Push();
  Settle(0, JournalKind::kAccepted);
  Settle(1, JournalKind::kReturned);
  Checkpoint recovered = copy;
  Apply(&recovered);
  EXPECT_TRUE(recovered.pushes.empty());
  EXPECT_EQ(recovered.round, 2u);  // the next
  EXPECT_EQ(recovered.accounted, pipeline_->Accounted());
  const std::vector<float> sent = SentBy(1);
  const auto late = Residual(recovered.momentum, 1);
  for (size_t i = 0; i < sent.size(); ++i) {
    if (sent[i] == 0) continue;
    ASSERT_EQ(late[i], sent[i]) << i;
  }
  if (GetParam() > 0) return;
  for (const float rest : Residual(recovered.momentum, 0)) ASSERT_EQ(rest, 0);
}

TEST_P(RecoveryTest, APushInFlightAtTheCopyIsSettledByTheJournal) {
  Push();
  const Checkpoint copy = Copy({{.segment = 0, .norm = 1, .weight = 5, .payload = payloads_[0]},
                                {.segment = 1, .norm = 1, .weight = 5, .payload = payloads_[1]}});
  records_.clear();
  Settle(0, JournalKind::kAccepted);
  Checkpoint recovered = copy;
  Apply(&recovered);
  ASSERT_EQ(recovered.pushes.size(), 1u);
  EXPECT_EQ(recovered.pushes[0].segment, 1u);
  EXPECT_EQ(recovered.accounted[0], 1u);
  EXPECT_EQ(recovered.round, 0u);
}

TEST_P(RecoveryTest, AResidualOfUnknownFateIsDropped) {
  Push();
  const Checkpoint copy = Copy();
  records_.clear();
  Push();
  Settle(0, JournalKind::kDropped);
  Settle(1, JournalKind::kAccepted);
  Checkpoint recovered = copy;
  Apply(&recovered);
  EXPECT_EQ(recovered.accounted[0], 0u);
  for (const float rest : Residual(recovered.momentum, 0)) ASSERT_EQ(rest, 0);
}

// A second recovery begins with the same checkpoint, and has more records.
TEST_P(RecoveryTest, AProcessMayDieAgainBeforeItsFirstCheckpoint) {
  Push();
  const Checkpoint copy = Copy();
  records_.clear();
  Push();
  Checkpoint once = copy;
  Apply(&once);
  Settle(0, JournalKind::kAccepted);
  Settle(1, JournalKind::kAccepted);
  Push();
  Checkpoint twice = copy;
  Apply(&twice);
  EXPECT_EQ(twice.round, 2u);
  EXPECT_EQ(twice.accounted, (std::vector<uint32_t>{2, 2}));
  EXPECT_EQ(twice.pushes.size(), kSegments);
}

TEST_P(RecoveryTest, RecordsOfNoSegmentOrPayloadAreDamage) {
  Push();
  Checkpoint copy = Copy();
  records_ = {{.kind = JournalKind::kPush, .segment = kSegments, .round = 1}};
  EXPECT_EQ(ApplyJournal(layout_, options(), records_, &copy).code(), absl::StatusCode::kDataLoss);
  records_ = {{.kind = JournalKind::kPush, .segment = 0, .round = 1}};
  EXPECT_EQ(ApplyJournal(layout_, options(), records_, &copy).code(), absl::StatusCode::kDataLoss);
}

INSTANTIATE_TEST_SUITE_P(Betas, RecoveryTest, ::testing::Values(0.0f, 0.5f, 1.0f));

}  // namespace
}  // namespace longwave
