#include "worker/sync/fragment_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "common/base/rng.h"
#include "worker/sync/send_order.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What was posted, and what the test settles of it.
class HeldExchange final : public Exchange {
 public:
  absl::Status Post(SegmentPush push) override {
    posts.push_back(std::move(push));
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<Settled>> Next(absl::Duration) override {
    if (settled.empty()) return std::nullopt;
    Settled next = std::move(settled.front());
    settled.pop_front();
    return next;
  }
  ByteCounts counts() const override { return {}; }

  std::vector<SegmentPush> posts;
  std::deque<Settled> settled;
};

class FragmentSyncTest : public ::testing::Test {
 protected:
  FragmentSyncTest()
      : layout_(Layout::Create({.tensors = {{"w", {128, 128}}}}, {.segment_tiles = 2}).value()) {}

  // One life of a worker's process.
  struct Process {
    Process(const SyncOptions& options, const Layout& layout)
        : theta(layout.parameter_count(), 0.5f),
          pipeline(SyncPipeline::Create(options, &layout, OpsFor(BackendKind::kCpu).value(), {},
                                        {.theta = theta.data()})
                       .value()),
          sync(pipeline.get(), &exchange, SendOrder(layout, 0)) {}

    void Drift() {
      Rng rng(3);
      for (float& value : theta) value += static_cast<float>(0.01 * (rng.Uniform() - 0.5));
    }
    // Of what was posted: its own payload is the merged update.
    void Settle(uint32_t segment, Fate fate, bool gone = false) {
      const SegmentPush& push = exchange.posts[segment];
      exchange.settled.push_back({.round = push.round,
                                  .segment = segment,
                                  .merged = gone ? Buffer() : push.payload,
                                  .fate = fate,
                                  .gone = gone});
    }
    absl::Status Apply() {
      return sync.Apply([] { return false; });
    }

    std::vector<float> theta;
    HeldExchange exchange;
    std::unique_ptr<SyncPipeline> pipeline;
    FragmentSync sync;
  };

  std::unique_ptr<Process> Begin() { return std::make_unique<Process>(options_, layout_); }

  const Layout layout_;
  const SyncOptions options_ = {.up = {Selection::kTopK, ValueCodec::kInt2, 64}, .beta = 0.9f};
};

TEST_F(FragmentSyncTest, WhatIsToBeDurableSeesEveryContributionBeforeAnyIsPosted) {
  auto worker = Begin();
  worker->Drift();
  std::vector<SegmentPush> seen;
  const auto keep = [&](std::span<const SegmentPush> pushes) {
    EXPECT_THAT(worker->exchange.posts, IsEmpty());
    seen.assign(pushes.begin(), pushes.end());
    return absl::OkStatus();
  };
  ASSERT_TRUE(worker->sync.Send(4, 0, 1e-3, 2, 512, keep).ok());
  ASSERT_THAT(worker->exchange.posts, SizeIs(2));
  ASSERT_THAT(seen, SizeIs(2));
  for (uint32_t s = 0; s < 2; ++s) {
    EXPECT_EQ(seen[s].segment, s);
    EXPECT_EQ(seen[s].round, 4u);
    EXPECT_EQ(seen[s].norm, worker->exchange.posts[s].norm);
    EXPECT_EQ(seen[s].payload.bytes().data(), worker->exchange.posts[s].payload.bytes().data());
  }
}

TEST_F(FragmentSyncTest, NothingIsPostedThatCouldNotBeMadeDurable) {
  auto worker = Begin();
  worker->Drift();
  const absl::Status sent =
      worker->sync.Send(4, 0, 1e-3, 2, 512, [](auto) { return absl::DataLossError("disk full"); });
  EXPECT_EQ(sent.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(worker->exchange.posts, IsEmpty());
}

TEST_F(FragmentSyncTest, WhatWasLateIsInTheResidualAgain) {
  const auto worker = Begin(), undisturbed = Begin();
  for (Process* process : {worker.get(), undisturbed.get()}) {
    process->Drift();
    ASSERT_TRUE(process->sync.Send(0, 0, 1e-3, 2, 512).ok());
  }
  for (uint32_t s = 0; s < 2; ++s) {
    worker->Settle(s, s == 1 ? Fate::kLate : Fate::kAccepted);
    undisturbed->Settle(s, Fate::kAccepted);
  }
  ASSERT_TRUE(worker->Apply().ok());
  ASSERT_TRUE(undisturbed->Apply().ok());
  EXPECT_EQ(worker->sync.late(), 1u);
  EXPECT_EQ(undisturbed->sync.late(), 0u);
  ASSERT_TRUE(undisturbed->pipeline->Restore(1).ok());
  EXPECT_EQ(worker->pipeline->ExportMomentum().value(),
            undisturbed->pipeline->ExportMomentum().value());
  EXPECT_EQ(worker->theta, undisturbed->theta);
}

TEST_F(FragmentSyncTest, AnUpdateThatIsGoneLeavesTheFragmentOpenAndNamesItsSegment) {
  auto worker = Begin();
  worker->Drift();
  ASSERT_TRUE(worker->sync.Send(0, 0, 1e-3, 2, 512).ok());
  worker->Settle(1, Fate::kLate, /*gone=*/true);
  worker->Settle(0, Fate::kAccepted);
  ASSERT_TRUE(worker->Apply().ok());
  EXPECT_THAT(worker->sync.missing(), ElementsAre(1u));
  EXPECT_EQ(worker->sync.round(), 0u);
  EXPECT_EQ(worker->pipeline->anchor_round(0), 1u);
  EXPECT_EQ(worker->pipeline->anchor_round(1), 0u);
  ASSERT_TRUE(worker->pipeline->AdoptAnchor().ok());
  EXPECT_TRUE(std::equal(worker->theta.begin(), worker->theta.end(), worker->pipeline->anchor()));
  // The next one starts afresh.
  worker->exchange.posts.clear();
  ASSERT_TRUE(worker->sync.Send(1, 0, 1e-3, 2, 512).ok());
  EXPECT_THAT(worker->sync.missing(), IsEmpty());
}

// Put back, it might be counted twice.
TEST_F(FragmentSyncTest, AContributionOfUnknownFateIsNotPutBack) {
  auto worker = Begin();
  worker->Drift();
  ASSERT_TRUE(worker->sync.Send(0, 0, 1e-3, 2, 512).ok());
  const std::vector<float> taken = worker->pipeline->ExportMomentum().value();
  for (uint32_t s = 0; s < 2; ++s) worker->Settle(s, Fate::kUnknown, /*gone=*/true);
  ASSERT_TRUE(worker->Apply().ok());
  EXPECT_EQ(worker->sync.unknown_fates(), 2u);
  EXPECT_EQ(worker->sync.late(), 0u);
  EXPECT_EQ(worker->pipeline->ExportMomentum().value(), taken);
}

}  // namespace
}  // namespace longwave
