// Rounds whose inner steps the coordinator decides (sync.inner_steps auto).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/ops.h"
#include "worker/core/session_core.h"
#include "worker/core/worker_core.h"
#include "worker/sync/send_order.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Stage = WorkerCore::Stage;
using Wish = WorkerCore::Wish;

constexpr uint64_t kSteps = 20;

// A worker of two segments. Its own payloads are the merged updates.
struct IntervalWorker {
  explicit IntervalWorker(uint32_t fragments = 1)
      : theta(layout.parameter_count(), 0.5f),
        pipeline(SyncPipeline::Create({.up = {Selection::kTopK, ValueCodec::kInt2, 64},
                                       .beta = 0.9f,
                                       .eta_follows_learning_rate = true,
                                       .fragments = fragments},
                                      &layout, OpsFor(BackendKind::kCpu).value(), {},
                                      {.theta = theta.data()})
                     .value()),
        core({.layout = &layout,
              .pipeline = pipeline.get(),
              .plan = SyncPlan(RoundPlan(kSteps), fragments, 0),
              .order = SendOrder(layout, 0),
              .checkpoint_every = std::nullopt,
              .learning_rate =
                  [this](uint64_t step) {
                    rates_of.push_back(step);
                    return 1e-3 * static_cast<double>(step + 1);
                  },
              .initial_weights = [] { return std::vector<float>(); },
              .clear_gradient = nullptr}) {}

  void Hear(uint32_t decided_rounds, std::vector<RoundInterval> changes, uint32_t first_round = 0) {
    core.Hear({.epoch = 2,
               .first_round = first_round,
               .intervals = {.decided_rounds = decided_rounds, .changes = std::move(changes)}});
  }
  Wish Advance() {
    Wish wish = Wish::kGoOn;
    while (wish == Wish::kGoOn) {
      const auto advanced = core.Advance(absl::UnixEpoch());
      failure = advanced.status();
      if (!advanced.ok()) return Wish::kEnd;
      wish = *advanced;
      for (CoreEffect& effect : core.TakeEffects()) {
        if (auto* push = std::get_if<SegmentPush>(&effect)) posts.push_back(std::move(*push));
        if (auto* report = std::get_if<RoundReport>(&effect)) reports.push_back(*report);
      }
    }
    return wish;
  }
  // Inner steps until the worker waits, with its pushes settled; returns how many.
  uint32_t Train() {
    for (uint32_t steps = 0;;) {
      const Wish wish = Advance();
      if (wish == Wish::kTrain) {
        for (float& value : theta) value += 0.01f;
        core.StepDone(1, 2.0);
        ++steps;
      } else if (core.takes_settled() && !posts.empty()) {
        for (SegmentPush& push : std::exchange(posts, {})) {
          core.On(Settled{.round = push.round,
                          .segment = push.segment,
                          .merged = push.payload,
                          .fate = Fate::kAccepted});
          merged.push_back(std::move(push));
        }
      } else {
        return steps;
      }
    }
  }

  const Layout layout =
      Layout::Create({.tensors = {{"w", {128, 128}}}}, {.segment_tiles = 2}).value();
  std::vector<float> theta;
  std::vector<uint64_t> rates_of;  // steps
  std::unique_ptr<SyncPipeline> pipeline;
  WorkerCore core;
  absl::Status failure;
  std::vector<SegmentPush> posts, merged;
  std::vector<RoundReport> reports;
};

TEST(CoreInterval, ARoundBeginsOnceItsStepsAreKnown) {
  IntervalWorker worker;
  worker.Hear(0, {});
  ASSERT_TRUE(worker.core.Begin(/*is_new=*/true).ok());
  EXPECT_EQ(worker.Train(), 0u);
  EXPECT_EQ(worker.core.stage(), Stage::kBetweenRounds);
  worker.Hear(2, {{0, 3}});
  EXPECT_EQ(worker.Train(), 6u);
  EXPECT_EQ(worker.core.stage(), Stage::kBetweenRounds);
  EXPECT_EQ(worker.core.ready_round(), 2u);
  EXPECT_EQ(worker.core.step(), 6u);
  // Steps decide the learning rate, and the run ends with the last one.
  worker.Hear(3, {{0, 3}, {2, 8}});
  EXPECT_EQ(worker.Train(), 8u);
  worker.Hear(9, {{0, 3}, {2, 8}});
  EXPECT_EQ(worker.Train(), 6u);
  EXPECT_EQ(worker.core.stage(), Stage::kSealing);
  EXPECT_EQ(worker.core.plan().round_count(), 4u);
  EXPECT_THAT(worker.rates_of, ElementsAre(2, 5, 13, 19));
  ASSERT_THAT(worker.reports, SizeIs(4));
  EXPECT_EQ(worker.reports[2].step, 14u);
  EXPECT_EQ(worker.reports[3].step, kSteps);
}

TEST(CoreInterval, FragmentsAreSpreadOverEachRoundsOwnSteps) {
  IntervalWorker worker(2);
  worker.Hear(9, {{0, 2}, {1, 6}});
  ASSERT_TRUE(worker.core.Begin(/*is_new=*/true).ok());
  EXPECT_EQ(worker.Train(), 20u);
  EXPECT_EQ(worker.core.stage(), Stage::kSealing);
  // Rounds of 2, 6, 6 and 6 steps; the signals of the last are taken at the end.
  EXPECT_THAT(worker.rates_of, ElementsAre(0, 1, 4, 7, 10, 13, 19, 19));
}

TEST(CoreInterval, AContradictionEndsTheWorker) {
  IntervalWorker worker;
  worker.Hear(2, {{0, 3}});
  ASSERT_TRUE(worker.core.Begin(/*is_new=*/true).ok());
  worker.Hear(4, {{0, 5}});
  worker.Advance();
  EXPECT_THAT(worker.failure.message(), HasSubstr("round 0 has 5 inner steps, wanted 3"));
}

TEST(CoreInterval, WhoCatchesUpWaitsForTheStepsOfTheRoundsItFetches) {
  IntervalWorker peer;
  peer.Hear(3, {{0, 2}, {1, 5}});
  ASSERT_TRUE(peer.core.Begin(/*is_new=*/true).ok());
  ASSERT_EQ(peer.Train(), 12u);

  // The second worker knows two rounds when it fetches three.
  IntervalWorker worker;
  worker.Hear(2, {{0, 2}, {1, 5}}, /*first_round=*/3);
  worker.core.HearOpenRound(3);
  ASSERT_TRUE(worker.core.Begin(/*is_new=*/true).ok());
  ASSERT_EQ(worker.Advance(), Wish::kWait);
  for (const SegmentPush& push : peer.merged) {
    ASSERT_TRUE(worker.core
                    .On(FetchEvent{.kind = FetchEvent::Kind::kUpdate,
                                   .segment = push.segment,
                                   .round = push.round,
                                   .payload = push.payload})
                    .ok());
  }
  for (const uint32_t s : {0, 1}) {
    ASSERT_TRUE(worker.core.On(FetchEvent{.kind = FetchEvent::Kind::kUpToDate, .segment = s}).ok());
  }
  EXPECT_EQ(worker.Advance(), Wish::kWait);
  EXPECT_EQ(worker.pipeline->anchor_round(0), 2u);
  EXPECT_EQ(worker.core.stage(), Stage::kHearing);
  // As it hears of the third, it has the same bits, by the learning rates of the same steps.
  worker.Hear(4, {{0, 2}, {1, 5}, {3, 7}}, /*first_round=*/3);
  EXPECT_EQ(worker.Advance(), Wish::kTrain);
  EXPECT_EQ(worker.core.round(), 3u);
  EXPECT_EQ(worker.core.step(), 12u);
  EXPECT_EQ(*worker.pipeline->Hashes(), *peer.pipeline->Hashes());
}

// A journal that has all settled pushes of the last round leads to a checkpoint after it. No more
// rounds than the run has are decided then.
TEST(CoreInterval, ACheckpointAfterTheLastRoundWaitsForNoMore) {
  IntervalWorker peer;
  peer.Hear(4, {{0, 5}});
  ASSERT_TRUE(peer.core.Begin(/*is_new=*/true).ok());
  ASSERT_EQ(peer.Train(), kSteps);

  IntervalWorker worker;
  worker.Hear(4, {{0, 5}});
  worker.core.HearOpenRound(4);
  Checkpoint checkpoint{
      .layout_hash = worker.layout.hash(), .round = 4, .step = kSteps, .accounted = {4, 4}};
  checkpoint.momentum.resize(worker.layout.coefficient_count());
  ASSERT_TRUE(worker.core.Begin(/*is_new=*/false, std::move(checkpoint)).ok());
  worker.Advance();
  for (const SegmentPush& push : peer.merged) {
    ASSERT_TRUE(worker.core
                    .On(FetchEvent{.kind = FetchEvent::Kind::kUpdate,
                                   .segment = push.segment,
                                   .round = push.round,
                                   .payload = push.payload})
                    .ok());
  }
  for (const uint32_t s : {0, 1}) {
    ASSERT_TRUE(worker.core.On(FetchEvent{.kind = FetchEvent::Kind::kUpToDate, .segment = s}).ok());
  }
  worker.Advance();
  EXPECT_EQ(worker.core.stage(), Stage::kSealing);
}

// --- the session ---------------------------------------------------------------------------------

class SessionInterval : public ::testing::Test {
 protected:
  SessionInterval()
      : session_(RegisterWorker{.name = "a"}, absl::Seconds(1), now_, RoundPlan(kSteps)) {
    session_.TakeDue(now_);
    session_.OnRegistered(0, now_);
  }
  WorkerHeartbeat Beat() {
    now_ += absl::Seconds(1);
    return std::get<WorkerHeartbeat>(session_.TakeDue(now_));
  }
  void Answer(std::optional<Intervals> intervals) {
    session_.OnHeartbeatReply(WorkerHeartbeatReply{.instruction = Instruction::kContinue,
                                                   .phase = RunPhase::kTraining,
                                                   .run = 5,
                                                   .intervals = std::move(intervals)},
                              now_);
  }
  absl::Time now_ = absl::UnixEpoch();
  SessionCore session_;
};

TEST_F(SessionInterval, SaysWhatItKnowsAndAddsWhatIsNew) {
  EXPECT_EQ(Beat().known_rounds, 0u);
  Answer(Intervals{.decided_rounds = 3, .changes = {{0, 2}}});
  WorkerHeartbeat beat = Beat();
  EXPECT_EQ(beat.known_rounds, 3u);
  EXPECT_EQ(beat.known_steps, 6u);
  Answer(Intervals{.decided_rounds = 5, .changes = {{3, 4}}});
  EXPECT_EQ(session_.directive().intervals,
            (Intervals{.decided_rounds = 5, .changes = {{0, 2}, {3, 4}}}));
  beat = Beat();
  EXPECT_EQ(beat.known_rounds, 5u);
  EXPECT_EQ(beat.known_steps, 14u);
  Answer(std::nullopt);
  EXPECT_EQ(session_.directive().intervals.decided_rounds, 5u);
  EXPECT_EQ(session_.ended(), std::nullopt);
}

TEST_F(SessionInterval, AContradictionEndsIt) {
  Beat();
  Answer(Intervals{.decided_rounds = 3, .changes = {{0, 2}}});
  Beat();
  Answer(Intervals{.decided_rounds = 5, .changes = {{2, 4}}});
  ASSERT_TRUE(session_.ended().has_value());
  EXPECT_EQ(session_.ended()->code(), absl::StatusCode::kAborted);
  EXPECT_THAT(session_.ended()->message(), HasSubstr("round 2 has 4 inner steps, wanted 2"));
}

}  // namespace
}  // namespace longwave
