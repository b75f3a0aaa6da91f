#include "worker/core/worker_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/rng.h"
#include "kernels/ops.h"
#include "worker/sync/send_order.h"

namespace longwave {
namespace {

using ::testing::SizeIs;
using Stage = WorkerCore::Stage;
using Wish = WorkerCore::Wish;

class WorkerCoreTest : public ::testing::Test {
 protected:
  // A process of a worker: two segments, one inner step a round.
  struct Process {
    Process(const Layout& layout, std::optional<uint32_t> checkpoint_every)
        : theta(layout.parameter_count(), 0.5f),
          pipeline(SyncPipeline::Create(
                       {.up = {Selection::kTopK, ValueCodec::kInt2, 64}, .beta = 0.9f}, &layout,
                       OpsFor(BackendKind::kCpu).value(), {}, {.theta = theta.data()})
                       .value()),
          core({.layout = &layout,
                .pipeline = pipeline.get(),
                .plan = SyncPlan(1, 1, 0, 10),
                .order = SendOrder(layout, 0),
                .checkpoint_every = checkpoint_every,
                .learning_rate = [](uint64_t) { return 1e-3; },
                .initial_weights = [] { return std::vector<float>(); },
                .clear_gradient = nullptr}) {
      core.Hear({.epoch = 2, .first_round = 0});
      EXPECT_TRUE(core.Begin(/*is_new=*/true).ok());
    }

    // Runs until the core waits; its requests are in effects.
    Wish Advance() {
      Wish wish = Wish::kGoOn;
      while (wish == Wish::kGoOn) {
        const auto advanced = core.Advance(absl::UnixEpoch());
        EXPECT_TRUE(advanced.ok()) << advanced.status();
        if (!advanced.ok()) return Wish::kWait;
        wish = *advanced;
        for (CoreEffect& effect : core.TakeEffects()) {
          if (const auto* push = std::get_if<SegmentPush>(&effect)) posts.push_back(*push);
          effects.push_back(std::move(effect));
        }
      }
      return wish;
    }
    // A step that moves θ, and the following core events.
    Wish Step() {
      EXPECT_EQ(Advance(), Wish::kTrain);
      Rng rng(3);
      for (float& value : theta) value += static_cast<float>(0.01 * (rng.Uniform() - 0.5));
      core.StepDone(512, loss);
      return Advance();
    }
    std::optional<double> loss = 2;  // of a step

    // Settles a posted push: its own payload is the merged update.
    void Settle(size_t post, Fate fate, bool gone = false) {
      const SegmentPush& push = posts[post];
      core.On(Settled{.round = push.round,
                      .segment = push.segment,
                      .merged = gone ? Buffer() : push.payload,
                      .fate = fate,
                      .compacted = gone});
    }
    template <typename Effect>
    int64_t Count() const {
      return std::ranges::count_if(
          effects, [](const CoreEffect& each) { return std::holds_alternative<Effect>(each); });
    }
    std::vector<float> momentum() { return pipeline->ExportMomentum().value(); }

    std::vector<float> theta;
    std::unique_ptr<SyncPipeline> pipeline;
    WorkerCore core;
    std::vector<CoreEffect> effects;
    std::vector<SegmentPush> posts;
  };

  std::unique_ptr<Process> Begin(std::optional<uint32_t> checkpoint_every = std::nullopt) {
    return std::make_unique<Process>(layout_, checkpoint_every);
  }

  const Layout layout_ =
      Layout::Create({.tensors = {{"w", {128, 128}}}}, {.segment_tiles = 2}).value();
};

TEST_F(WorkerCoreTest, WhoIsToldToEndKeepsWhatTheLastCheckpointLacks) {
  auto worker = Begin(/*checkpoint_every=*/1);
  const auto kept = [&]() -> const KeepCheckpoint* {
    for (const CoreEffect& effect : worker->effects) {
      const auto* const keep = std::get_if<KeepCheckpoint>(&effect);
      if (keep != nullptr && keep->is_last) return keep;
    }
    return nullptr;
  };
  // In a sync the last checkpoint has it all.
  worker->Step();
  worker->effects.clear();
  worker->core.Stop();
  EXPECT_EQ(worker->Advance(), Wish::kEnd);
  EXPECT_EQ(kept(), nullptr);

  worker = Begin(/*checkpoint_every=*/2);
  worker->Step();
  for (size_t s = 0; s < 2; ++s) worker->Settle(s, Fate::kAccepted);
  EXPECT_EQ(worker->Advance(), Wish::kTrain);
  // Round 1 makes the last checkpoint stale. One of the pushes in flight was settled.
  worker->Step();
  worker->effects.clear();
  worker->Settle(2, Fate::kLate);
  worker->core.Stop();
  EXPECT_EQ(worker->Advance(), Wish::kEnd);
  ASSERT_NE(kept(), nullptr);
  const Checkpoint& last = kept()->checkpoint;
  EXPECT_EQ(last.round, 1u);
  ASSERT_THAT(last.pushes, SizeIs(1));
  EXPECT_EQ(last.pushes[0].segment, worker->posts[3].segment);
  EXPECT_EQ(last.accounted[last.pushes[0].segment], 1u);
  worker->effects.clear();
  EXPECT_EQ(worker->Advance(), Wish::kEnd);  // once
  EXPECT_EQ(kept(), nullptr);
}

TEST_F(WorkerCoreTest, WhoIsToldToEndBeforeItHasAnythingKeepsNothing) {
  for (const std::optional<uint32_t> every : {std::optional<uint32_t>(), {0u}, {1u}}) {
    auto worker = Begin(every);
    worker->core.Stop();
    EXPECT_EQ(worker->Advance(), Wish::kEnd);
    EXPECT_EQ(worker->Count<KeepCheckpoint>(), 0);
  }
}

TEST_F(WorkerCoreTest, WhatWasLateIsInTheResidualAgain) {
  const auto worker = Begin(), undisturbed = Begin();
  for (Process* process : {worker.get(), undisturbed.get()}) process->Step();
  for (uint32_t s = 0; s < 2; ++s) {
    worker->Settle(s, s == 1 ? Fate::kLate : Fate::kAccepted);
    undisturbed->Settle(s, Fate::kAccepted);
  }
  EXPECT_EQ(worker->Advance(), Wish::kTrain);
  EXPECT_EQ(undisturbed->Advance(), Wish::kTrain);
  EXPECT_EQ(worker->core.counts().late, 1u);
  EXPECT_EQ(undisturbed->core.counts().late, 0u);
  ASSERT_TRUE(undisturbed->pipeline->Restore(1).ok());
  EXPECT_EQ(worker->momentum(), undisturbed->momentum());
  EXPECT_EQ(worker->theta, undisturbed->theta);
}

TEST_F(WorkerCoreTest, ARoundIsReportedOnceItsUpdatesAreInTheReplica) {
  auto worker = Begin();
  worker->Step();
  worker->Settle(1, Fate::kAccepted);
  EXPECT_EQ(worker->Advance(), Wish::kWait);
  EXPECT_EQ(worker->Count<RoundReport>(), 0);
  worker->Settle(0, Fate::kAccepted);
  EXPECT_EQ(worker->Advance(), Wish::kTrain);
  EXPECT_EQ(worker->Count<FragmentApplied>(), 1);
  ASSERT_EQ(worker->Count<RoundReport>(), 1);
  const auto& report = std::get<RoundReport>(worker->effects.back());
  EXPECT_EQ(report.round, 0u);
  EXPECT_EQ(report.step, 1u);
  EXPECT_EQ(report.train_loss, 2);
  EXPECT_EQ(report.tokens, 512u);
  EXPECT_EQ(report.segment_hashes, *worker->pipeline->Hashes());
  EXPECT_EQ(worker->core.round(), 1u);
}

TEST_F(WorkerCoreTest, ARoundOfStepsWithoutALossHasNone) {
  auto worker = Begin();
  worker->loss = std::nullopt;
  worker->Step();
  for (const size_t post : {0, 1}) worker->Settle(post, Fate::kAccepted);
  EXPECT_EQ(worker->Advance(), Wish::kTrain);
  EXPECT_EQ(std::get<RoundReport>(worker->effects.back()).train_loss, std::nullopt);
}

// Put back, it might be counted twice.
TEST_F(WorkerCoreTest, AContributionOfUnknownFateIsNotPutBack) {
  auto worker = Begin();
  worker->Step();
  const std::vector<float> taken = worker->momentum();
  for (uint32_t s = 0; s < 2; ++s) worker->Settle(s, Fate::kUnknown, /*gone=*/true);
  worker->Advance();
  EXPECT_EQ(worker->core.counts().unknown, 2u);
  EXPECT_EQ(worker->core.counts().late, 0u);
  EXPECT_EQ(worker->momentum(), taken);
}

// The coordinator's repair of a round, and its directives after the last one.
TEST_F(WorkerCoreTest, TheFinalReportIsToldAgainWhereADutyComesAfterIt) {
  auto worker = Begin();
  for (int round = 0; round < 10; ++round) {
    worker->posts.clear();
    worker->Step();
    for (uint32_t s = 0; s < 2; ++s) worker->Settle(s, Fate::kAccepted);
  }
  EXPECT_EQ(worker->Advance(), Wish::kWait);
  EXPECT_EQ(worker->core.stage(), Stage::kSealing);
  EXPECT_EQ(worker->Count<RoundReport>(), 10);
  worker->core.Hear({.epoch = 2, .first_round = 0, .sealing_round = 10});
  EXPECT_EQ(worker->Advance(), Wish::kWait);
  EXPECT_EQ(worker->Count<RoundReport>(), 11);
  EXPECT_EQ(worker->Count<TellFinal>(), 0);  // the replicas may differ
  worker->core.Hear({.epoch = 2, .first_round = 0, .sealed = true});
  EXPECT_EQ(worker->Advance(), Wish::kWait);
  EXPECT_EQ(worker->Count<RoundReport>(), 11);
  ASSERT_EQ(worker->Count<TellFinal>(), 1);
  EXPECT_FALSE(std::get<TellFinal>(worker->effects.back()).writes_weights);
  // The duty says nothing before the final report was heard.
  Directive directive = {.epoch = 2, .first_round = 0, .validates = true, .sealed = true};
  worker->core.Hear(directive);
  EXPECT_EQ(worker->Advance(), Wish::kWait);
  EXPECT_EQ(worker->Count<TellFinal>(), 1);
  directive.final_answered = true;
  worker->core.Hear(directive);
  EXPECT_EQ(worker->Advance(), Wish::kWait);
  ASSERT_EQ(worker->Count<TellFinal>(), 2);
  EXPECT_TRUE(std::get<TellFinal>(worker->effects.back()).writes_weights);
  // If another worker comes back, all are compared anew, and the final report is sent anew.
  directive.sealing_round = 11;
  directive.sealed = directive.final_answered = false;
  worker->core.Hear(directive);
  EXPECT_EQ(worker->Advance(), Wish::kWait);
  EXPECT_EQ(worker->Count<RoundReport>(), 12);
  EXPECT_EQ(std::get<RoundReport>(worker->effects.back()).round, 11u);
  // A coordinator with an older record may repeat a sealing round.
  EXPECT_EQ(worker->Advance(), Wish::kWait);
  EXPECT_EQ(worker->Count<RoundReport>(), 12);
  worker->core.Hear(directive);
  EXPECT_EQ(worker->Advance(), Wish::kWait);
  EXPECT_EQ(worker->Count<RoundReport>(), 13);
  directive.sealed = true;
  directive.sealing_round = 0;
  worker->core.Hear(directive);
  EXPECT_EQ(worker->Advance(), Wish::kWait);
  EXPECT_EQ(worker->Count<TellFinal>(), 3);
}

}  // namespace
}  // namespace longwave
