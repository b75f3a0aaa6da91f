#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/plain_exchange.h"
#include "tests/support/test_folder.h"
#include "tests/unit/worker/trainer/trainer_testing.h"
#include "worker/member/sync_options.h"
#include "worker/weights/safetensors.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

AdamW MakeOptimizer() {
  return *AdamW::Create({.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8}, &Cpu(), {},
                        {{0, 6, true}, {6, 2}});
}

// The result of a lone worker after `steps`.
QuadraticReplica Alone(int steps) {
  QuadraticReplica alone;
  AdamW optimizer = MakeOptimizer();
  for (int step = 0; step < steps; ++step) {
    EXPECT_TRUE(alone.ForwardBackward({}).ok());
    EXPECT_TRUE(optimizer.Step(alone.gradient(), 0.1, alone.theta()).ok());
  }
  return alone;
}

// A cluster of one: a posted push comes back as the merged update.
class LoopbackExchange final : public PlainExchange {
 public:
  absl::Status Post(SegmentPush push) override {
    if (on_post) on_post();
    posts.push_back(push);
    settled_.push_back({.round = push.round, .segment = push.segment, .merged = push.payload});
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<Settled>> Next(absl::Duration) override {
    if (silent || settled_.empty()) return std::nullopt;
    if (on_next) on_next();
    Settled next = std::move(settled_.back());
    settled_.pop_back();
    return next;
  }
  ByteCounts counts() const override { return {.pushed = 10 * posts.size()}; }

  std::vector<SegmentPush> posts;
  bool silent = false;  // nothing comes back
  std::function<void()> on_post, on_next;

 private:
  std::vector<Settled> settled_;
};

// The membership's epoch is the host's.
auto PostOf(uint32_t round, uint64_t weight) {
  return ::testing::AllOf(Field(&SegmentPush::epoch, 4u), Field(&SegmentPush::round, round),
                          Field(&SegmentPush::weight, weight));
}

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override { config_.run.validation_batches = 2; }

  absl::StatusOr<FinalReport> Run() {
    auto pipeline = SyncPipeline::Create(SyncOptionsOf(config_.sync, config_.run.seed), &layout_,
                                         &Cpu(), {}, {replica_.theta(), replica_.gradient()});
    if (!pipeline.ok()) return pipeline.status();
    AdamW optimizer = MakeOptimizer();
    Trainer trainer({.data = &corpus_,
                     .replica = &replica_,
                     .optimizer = &optimizer,
                     .run_dir = run_dir_,
                     .keeps_state = keeps_state_,
                     .member = {.config = &config_,
                                .layout = &layout_,
                                .ops = &Cpu(),
                                .gradient = replica_.gradient(),
                                .pipeline = pipeline->get(),
                                .exchange = &exchange_,
                                .control = &host_,
                                .worker = 2}});
    return trainer.Run();
  }

  bool keeps_state_ = true;
  RunConfig config_ = TrainerConfig(10);
  const TestFolder temporary_;
  const std::string run_dir_ = temporary_.path();
  QuadraticReplica replica_;
  Layout layout_ = *Layout::Create(replica_.manifest(), LayoutOptions{});
  const Corpus corpus_ = TrainerCorpus();
  RecordingHost host_;
  LoopbackExchange exchange_;
};

TEST_F(TrainerTest, TheLastRoundHasTheStepsThatAreLeft) {
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(replica_.batches.size(), 10u);
  EXPECT_THAT(exchange_.posts,
              ElementsAre(PostOf(0, 4 * 12), PostOf(1, 4 * 12), PostOf(2, 2 * 12)));
  ASSERT_EQ(host_.reports.size(), 4u);  // and the replica with all rounds
  EXPECT_EQ(host_.reports[2].step, 10u);
  EXPECT_EQ(host_.reports[2].tokens, 120u);
  EXPECT_EQ(host_.reports[2].bytes.pushed, 30u);
  EXPECT_EQ(host_.reports[2].segment_hashes.size(), layout_.segments().size());
}

TEST_F(TrainerTest, AnUnchangedPseudoGradientGivesTheLocalSteps) {
  ASSERT_TRUE(Run().ok());
  QuadraticReplica alone = Alone(10);
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(replica_.theta()[i], alone.theta()[i], 1e-5);
}

TEST_F(TrainerTest, InnerTakesTheOptimizersStepWithTheMergedGradient) {
  config_.sync = {.signal = SignalKind::kGradient, .inner_steps = 1, .update = UpdateRule::kInner};
  config_.train.clip_norm = 0.5;
  ASSERT_TRUE(Run().ok());
  QuadraticReplica alone;
  AdamW optimizer = MakeOptimizer();
  for (int step = 0; step < 10; ++step) {
    ASSERT_TRUE(alone.ForwardBackward({}).ok());
    ASSERT_TRUE(ClipToNorm(Cpu(), {}, 0.5, alone.gradient(), 8).ok());
    ASSERT_TRUE(optimizer.Step(alone.gradient(), 0.1, alone.theta()).ok());
  }
  for (int i = 0; i < 8; ++i) EXPECT_EQ(replica_.theta()[i], alone.theta()[i]);
}

TEST_F(TrainerTest, HashesAreOfTheParametersAfterTheInnerStep) {
  config_.sync = {.signal = SignalKind::kGradient, .inner_steps = 1, .update = UpdateRule::kInner};
  config_.run.steps = 1;
  ASSERT_TRUE(Run().ok());
  uint64_t hash = 0;
  ASSERT_TRUE(
      Cpu().hash({}, {.layout = &layout_, .theta = replica_.theta(), .hashes = {&hash, 1}}).ok());
  EXPECT_EQ(host_.reports[0].segment_hashes[0], hash);
}

TEST_F(TrainerTest, AGradientSignalWithSignMovesByTheLearningRate) {
  config_.sync = {.signal = SignalKind::kGradient,
                  .inner_steps = 1,
                  .update = UpdateRule::kSign,
                  .eta = 1,
                  .follow_schedule = true};
  config_.run.steps = 3;
  ASSERT_TRUE(Run().ok());
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(replica_.theta()[i], 0.3, 1e-6);
}

TEST_F(TrainerTest, OnlyTheChosenMemberValidatesAndWritesTheModel) {
  const auto report = Run();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->model_file, run_dir_ + "/model.safetensors");
  EXPECT_TRUE(std::filesystem::exists(report->model_file));
  ASSERT_EQ(host_.reports.size(), 4u);
  for (int round = 0; round < 3; ++round)
    EXPECT_TRUE(host_.reports[round].validation_loss.has_value());
  EXPECT_EQ(report->validation_loss, host_.reports[2].validation_loss);
  EXPECT_DOUBLE_EQ(*report->validation_loss, *replica_.Loss({}));
}

// The writer was lost after the last round. The worker that gets the duty then fulfils it.
TEST_F(TrainerTest, WritesTheWeightsWhenTheDutyComesAfterItsFinalReport) {
  host_.validates_ = false;
  host_.on_finish = [&] {
    host_.validates_ = true;
    return host_.finals.size() == 2;
  };
  const auto report = Run();
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(host_.finals.size(), 2u);
  EXPECT_TRUE(host_.finals[0].model_file.empty());
  EXPECT_FALSE(host_.finals[0].validation_loss.has_value());
  EXPECT_EQ(host_.finals[1].model_file, run_dir_ + "/model.safetensors");
  EXPECT_TRUE(host_.finals[1].validation_loss.has_value());
  EXPECT_TRUE(std::filesystem::exists(report->model_file));
}

TEST_F(TrainerTest, ValidatesAtTheIntervalAndAtTheEnd) {
  config_.run.validate_every = 2;
  ASSERT_TRUE(Run().ok());
  ASSERT_EQ(host_.reports.size(), 4u);  // and the replica with all rounds
  EXPECT_FALSE(host_.reports[0].validation_loss.has_value());
  EXPECT_TRUE(host_.reports[1].validation_loss.has_value());
  EXPECT_TRUE(host_.reports[2].validation_loss.has_value());
}

TEST_F(TrainerTest, BatchesAreThisWorkersOfThisStep) {
  ASSERT_TRUE(Run().ok());
  for (uint64_t step = 0; step < 10; ++step) {
    EXPECT_EQ(replica_.batches[step], *corpus_.TrainBatch(5, 2, step, 3)) << step;
  }
}

TEST_F(TrainerTest, ALossThatIsNotFiniteEndsTheRunWithItsStep) {
  for (const auto& [value, text] :
       {std::pair{std::nan(""), "the loss is nan at step 5 (wanted a finite"},
        {std::numeric_limits<double>::infinity(), "the loss is inf at step 5"}}) {
    replica_.batches.clear();
    replica_.on_loss = [bad = value](size_t step) { return step == 5 ? bad : 1.0; };
    const auto report = Run();
    EXPECT_EQ(report.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(report.status().message()), HasSubstr(text));
    EXPECT_EQ(replica_.batches.size(), 6u);
    // The coordinator, which counts such losses, learns of it.
    ASSERT_FALSE(host_.states.empty());
    EXPECT_FALSE(std::isfinite(host_.states.back().train_loss.value()));
  }
}

TEST_F(TrainerTest, AValidationLossThatIsNotFiniteIsToldBeforeItEndsTheRun) {
  replica_.on_validation = [] { return std::nan(""); };
  config_.run.validate_every = 2;
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kDataLoss);
  ASSERT_EQ(host_.reports.size(), 2u);
  EXPECT_FALSE(host_.reports[0].validation_loss.has_value());
  ASSERT_TRUE(host_.reports[1].validation_loss.has_value());
  EXPECT_TRUE(std::isnan(*host_.reports[1].validation_loss));
}

TEST_F(TrainerTest, OfTheLastRoundTheFinalReportTellsItWhereTheDutyCameLate) {
  replica_.on_validation = [] { return std::nan(""); };
  host_.validates_ = false;
  host_.on_finish = [this] {
    host_.validates_ = true;
    return host_.finals.size() == 2;
  };
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kDataLoss);
  ASSERT_EQ(host_.finals.size(), 2u);
  ASSERT_TRUE(host_.finals[1].validation_loss.has_value());
  EXPECT_TRUE(std::isnan(*host_.finals[1].validation_loss));
  EXPECT_TRUE(host_.finals[1].model_file.empty());
}

TEST_F(TrainerTest, StopsBetweenStepsWhenAsked) {
  host_.on_state = [this](const WorkerState& state) { host_.stop |= state.step == 3; };
  EXPECT_TRUE(absl::IsCancelled(Run().status()));
  EXPECT_EQ(replica_.batches.size(), 3u);
}

TEST_F(TrainerTest, AStopEndsTheWaitForAnUpdate) {
  exchange_.silent = true;
  host_.on_state = [this](const WorkerState& state) {
    host_.stop |= state.phase == WorkerPhase::kSyncing;
  };
  EXPECT_TRUE(absl::IsCancelled(Run().status()));
  EXPECT_EQ(replica_.batches.size(), 4u);
}

TEST_F(TrainerTest, OfARunThatIsStoppedTheWeightsAfterItsLastUpdateAreWritten) {
  host_.on_state = [this](const WorkerState& state) {
    host_.stop = host_.is_over |= state.step == 6;
  };
  EXPECT_TRUE(absl::IsCancelled(Run().status()));
  const auto weights = ReadWeights(run_dir_ + "/model.safetensors", replica_.manifest(), layout_);
  ASSERT_TRUE(weights.ok()) << weights.status();
  QuadraticReplica alone = Alone(4);
  for (size_t i = 0; i < weights->size(); ++i) EXPECT_NEAR((*weights)[i], alone.theta()[i], 1e-6);
}

TEST_F(TrainerTest, AWorkerThatGoesLeavesTheWeightsOfARunThatGoesOnToOthers) {
  host_.on_state = [this](const WorkerState& state) { host_.stop |= state.step == 6; };
  EXPECT_TRUE(absl::IsCancelled(Run().status()));
  EXPECT_TRUE(std::filesystem::is_empty(run_dir_));
}

// The worker cannot come back, and the coordinator may be gone.
TEST_F(TrainerTest, AWorkerWithoutStateThatGoesWritesTheWeights) {
  keeps_state_ = false;
  host_.on_state = [this](const WorkerState& state) { host_.stop |= state.step == 6; };
  EXPECT_TRUE(absl::IsCancelled(Run().status()));
  EXPECT_FALSE(std::filesystem::is_empty(run_dir_));
}

TEST_F(TrainerTest, WhoDoesNotValidateWritesNoWeightsOfARunThatIsStopped) {
  host_.validates_ = false;
  host_.on_state = [this](const WorkerState& state) {
    host_.stop = host_.is_over |= state.step == 6;
  };
  EXPECT_TRUE(absl::IsCancelled(Run().status()));
  EXPECT_TRUE(std::filesystem::is_empty(run_dir_));
}

class TrainerOverlapTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    config_.sync.overlap = 2;
    exchange_.on_post = [this] { posted_at_.push_back(replica_.batches.size()); };
    exchange_.on_next = [this] { applied_at_.push_back(replica_.batches.size()); };
  }
  std::vector<size_t> posted_at_, applied_at_;  // steps done
};

TEST_F(TrainerOverlapTest, StepsGoOnBetweenASignalAndItsUpdate) {
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(posted_at_, ElementsAre(4, 8, 10));
  EXPECT_THAT(applied_at_, ElementsAre(6, 10, 10));
  EXPECT_THAT(exchange_.posts,
              ElementsAre(PostOf(0, 4 * 12), PostOf(1, 4 * 12), PostOf(2, 2 * 12)));
  // No contribution was lost or counted twice.
  QuadraticReplica alone = Alone(10);
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(replica_.theta()[i], alone.theta()[i], 1e-5);
}

TEST_F(TrainerOverlapTest, ARoundsReportIsOfItsOwnSteps) {
  ASSERT_TRUE(Run().ok());
  ASSERT_EQ(host_.reports.size(), 4u);  // and the replica with all rounds
  for (uint32_t round = 0; round < 3; ++round) {
    const RoundReport& report = host_.reports[round];
    EXPECT_EQ(report.round, round);
    EXPECT_EQ(report.step, std::min(4 * (round + 1), 10u));
    EXPECT_EQ(report.tokens, report.step * 12);
  }
  QuadraticReplica replica;
  double mean = 0;
  AdamW optimizer = MakeOptimizer();
  for (int step = 0; step < 4; ++step) {
    mean += *replica.ForwardBackward({}) / 4;
    ASSERT_TRUE(optimizer.Step(replica.gradient(), 0.1, replica.theta()).ok());
  }
  EXPECT_NEAR(host_.reports[0].train_loss.value(), mean, 1e-6);
}

TEST_F(TrainerOverlapTest, ValidatesAndWritesTheAnchor) {
  ASSERT_TRUE(Run().ok());
  ASSERT_EQ(host_.reports.size(), 4u);  // and the replica with all rounds
  EXPECT_NEAR(*host_.reports[0].validation_loss, *Alone(4).Loss({}), 1e-5);
  EXPECT_NEAR(*host_.reports[1].validation_loss, *Alone(8).Loss({}), 1e-5);
  EXPECT_NEAR(*host_.reports[2].validation_loss, *Alone(10).Loss({}), 1e-5);
}

TEST_F(TrainerOverlapTest, FragmentsAreSyncedInTurn) {
  layout_ = *Layout::Create(replica_.manifest(),
                            {.tiling = Tiling::kTensor, .block = 8, .segment_tiles = 1});
  ASSERT_GE(layout_.segments().size(), 2u);
  config_.sync.overlap = 1;
  config_.sync.fragments = 2;
  ASSERT_TRUE(Run().ok());
  std::vector<size_t> segment_steps[2];
  for (size_t i = 0; i < exchange_.posts.size(); ++i) {
    auto& steps = segment_steps[exchange_.posts[i].segment % 2];
    if (steps.empty() || steps.back() != posted_at_[i]) steps.push_back(posted_at_[i]);
  }
  EXPECT_THAT(segment_steps[0], ElementsAre(2, 6, 10));
  EXPECT_THAT(segment_steps[1], ElementsAre(4, 8, 10));
  ASSERT_EQ(host_.reports.size(), 4u);  // and the replica with all rounds
  EXPECT_EQ(host_.reports[1].step, 8u);
  // No segment is without its last steps, since the run ends with a sync of each.
  QuadraticReplica alone = Alone(10);
  EXPECT_NEAR(*host_.reports[2].validation_loss, *alone.Loss({}), 1e-5);
}

}  // namespace
}  // namespace longwave
