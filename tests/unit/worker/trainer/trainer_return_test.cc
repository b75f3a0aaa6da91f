// A trainer that does not take part from the first round to the last: late joiners, workers that
// were away, and those that come back with a checkpoint.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/support/locked_file_system.h"
#include "tests/support/sim_file_system.h"
#include "tests/support/test_folder.h"
#include "tests/unit/worker/member/member_testing.h"
#include "tests/unit/worker/trainer/trainer_testing.h"
#include "worker/checkpoint/push_journal.h"
#include "worker/member/sync_options.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// From a start that only it knows.
QuadraticReplica Started() {
  QuadraticReplica replica({{{"w", {8, 16}}, {"b", {24}}}});
  for (size_t i = 0; i < replica.parameter_count(); ++i)
    replica.theta()[i] = 0.1f * static_cast<float>(i % 7);
  return replica;
}

// A process's life of a worker.
struct Life {
  QuadraticReplica replica = Started();
  RecordingHost host;
  Metrics metrics = Metrics(MetricPart::kWorker);
  absl::Status end;
  std::vector<uint64_t> hashes;  // of the anchor, at the end
  std::vector<float> momentum;   // likewise

  std::vector<uint32_t> rounds() const {
    std::vector<uint32_t> reported;
    for (const RoundReport& report : host.reports) reported.push_back(report.round);
    return reported;
  }
};

class TrainerReturnTest : public testing::Test {
 protected:
  void SetUp() override {
    config_.run.validation_batches = 1;
    config_.train.final_learning_rate_share = 0.1;
    config_.sync.beta = 0.5;
    config_.sync.up = {.selection = Selection::kTopK, .codec = ValueCodec::kInt4, .k = 5};
    config_.cluster.checkpoint_rounds = 1;
    config_.cluster.checkpoint_share = 1;
  }

  // A life from its beginning to its end. With `keeps`, on the disk of the lives before.
  void Live(Life& life, bool keeps = false) {
    std::unique_ptr<WorkerFolder> folder;
    if (keeps) {
      auto opened = WorkerFolder::Open(&files_, "state");
      ASSERT_TRUE(opened.ok()) << opened.status();
      folder = *std::move(opened);
    }
    auto pipeline =
        SyncPipeline::Create(SyncOptionsOf(config_.sync, config_.run.seed), &layout_, &Cpu(), {},
                             {life.replica.theta(), life.replica.gradient()});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    AdamW optimizer = *AdamW::Create({.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8}, &Cpu(), {},
                                     {{0, life.replica.parameter_count()}});
    Trainer trainer(
        {.data = &corpus_,
         .replica = &life.replica,
         .optimizer = &optimizer,
         .run_dir = run_dir_,
         .member = {.config = &config_,
                    .layout = &layout_,
                    .ops = &Cpu(),
                    .gradient = life.replica.gradient(),
                    .pipeline = pipeline->get(),
                    .exchange = &shards_,
                    .control = &life.host,
                    .folder = folder.get(),
                    .run = 77,
                    .name = "worker-2",
                    .worker = 2,
                    .initial_weights =
                        [&life] { return std::vector<float>(life.replica.parameter_count()); },
                    .metrics = &life.metrics}});
    life.end = trainer.Run().status();
    life.hashes = *(*pipeline)->Hashes();
    life.momentum = *(*pipeline)->ExportMomentum();
  }
  void LiveToTheEnd(Life& life, bool keeps = false) {
    Live(life, keeps);
    EXPECT_TRUE(life.end.ok()) << life.end;
  }

  std::vector<Batch> BatchesOf(uint64_t from_step) const {
    std::vector<Batch> batches;
    for (uint64_t step = from_step; step < config_.run.steps; ++step) {
      batches.push_back(*corpus_.TrainBatch(5, 2, step, 3));
    }
    return batches;
  }
  void KeepRounds(uint32_t rounds) {
    for (auto& log : shards_.logs) log.resize(rounds);
    shards_.posts.clear();
    shards_.fetches.clear();
  }

  RunConfig config_ = TrainerConfig(18);
  const TestFolder temporary_;
  const std::string run_dir_ = temporary_.path();
  const Layout layout_ = *Layout::Create(
      Started().manifest(), {.tiling = Tiling::kTensor, .block = 8, .segment_tiles = 1});
  const Corpus corpus_ = TrainerCorpus();
  FakeShards shards_ = FakeShards(static_cast<uint32_t>(layout_.segments().size()));
  SimFileSystem disk_ = SimFileSystem(1);
  LockedFileSystem files_ = LockedFileSystem(&disk_);
};

TEST_F(TrainerReturnTest, WhoIsThereFromTheBeginningFetchesNothing) {
  Life life;
  LiveToTheEnd(life);
  EXPECT_THAT(life.rounds(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_TRUE(shards_.fetches.empty());
  EXPECT_EQ(life.replica.batches, BatchesOf(0));
}

TEST_F(TrainerReturnTest, KeepingCheckpointsChangesNoBit) {
  Life without, with;
  Live(without);
  KeepRounds(0);
  Live(with, true);
  EXPECT_EQ(with.hashes, without.hashes);
  EXPECT_EQ(with.momentum, without.momentum);
}

TEST_F(TrainerReturnTest, APushLeavesOnceItsRecordWouldOutliveAPowerCut) {
  shards_.on_post = [&] {
    const auto disk = files_.Alone([&] { return disk_.Copy(1); });
    disk->Restart(SimFileSystem::Stop::kPower);
    const auto records = ReadJournals(*disk, "state", 0, nullptr);
    ASSERT_TRUE(records.ok()) << records.status();
    const SegmentPush& push = shards_.posts.back();
    EXPECT_TRUE(std::ranges::any_of(*records, [&](const JournalRecord& record) {
      return record.kind == JournalKind::kPush && record.round == push.round &&
             record.segment == push.segment && record.payload == push.payload;
    })) << push.round;
  };
  Life life;
  LiveToTheEnd(life, true);
  EXPECT_EQ(shards_.posts.size(), 5 * layout_.segments().size());
}

TEST_F(TrainerReturnTest, ALateJoinerBeginsWithTheFirstStepOfItsRound) {
  Life other, joiner;
  Live(other);
  KeepRounds(2);
  joiner.host.first_round_ = kRoundNever;
  joiner.host.on_ready = [&](uint32_t ready) {
    if (ready == 2) joiner.host.first_round_ = 2;
  };
  LiveToTheEnd(joiner);
  EXPECT_THAT(joiner.rounds(), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(joiner.replica.batches, BatchesOf(8));
  EXPECT_EQ(joiner.host.reports[0].step, 12u);
  EXPECT_EQ(joiner.host.reports[2].step, 18u);
  EXPECT_EQ(joiner.host.reports[2].tokens, 10u * 12);
  EXPECT_EQ(shards_.posts[0].weight, 4u * 12);
  EXPECT_THAT(joiner.host.ready_rounds, ElementsAre(kRoundNever, 2, 3, 4));
}

TEST_F(TrainerReturnTest, AJoinerAfterTheLastRoundTakesTheRunsWeights) {
  Life other, joiner;
  Live(other);
  joiner.host.first_round_ = kRoundNever;
  LiveToTheEnd(joiner);
  EXPECT_EQ(joiner.hashes, other.hashes);
  EXPECT_TRUE(joiner.replica.batches.empty());
  // No training is left, but the final replica is compared.
  ASSERT_THAT(joiner.rounds(), ElementsAre(5));
  EXPECT_EQ(joiner.host.reports[0].segment_hashes, other.host.reports.back().segment_hashes);
}

TEST_F(TrainerReturnTest, FollowsShardsThatHaveMoved) {
  Life life;
  life.host.new_endpoints = {"tcp://b:2"};
  LiveToTheEnd(life);
  EXPECT_THAT(shards_.endpoints, ElementsAre("tcp://b:2"));
}

TEST_F(TrainerReturnTest, AJoinersFirstPushWeighsTheStepsThatItTook) {
  config_.sync.fragments = 2;
  Life other, joiner;
  Live(other);
  KeepRounds(2);
  joiner.host.first_round_ = 2;
  LiveToTheEnd(joiner);
  // Fragment 0 is taken two steps after the round's beginning, others' signals cover four.
  EXPECT_EQ(shards_.posts[0].weight, 2u * 12);
  EXPECT_EQ(shards_.posts[layout_.segments().size()].weight, 4u * 12);
}

TEST_F(TrainerReturnTest, WhoWasAwayLeavesOutWhatTheOthersHaveClosed) {
  Life other, sleeper;
  Live(other);
  KeepRounds(3);
  shards_.on_settle = [&](const SegmentPush& push) -> std::optional<Settled> {
    auto& log = shards_.logs[push.segment];
    const bool late = push.round < log.size();
    if (!late) log.push_back(push.payload);
    return Settled{.round = push.round,
                   .segment = push.segment,
                   .merged = log[push.round],
                   .fate = late ? Fate::kLate : Fate::kAccepted};
  };
  LiveToTheEnd(sleeper);
  EXPECT_THAT(sleeper.rounds(), ElementsAre(0, 3, 4, 5));
  EXPECT_EQ(sleeper.replica.batches.size(), 4u + 6);
  // With those that it took and was late with, the run's steps.
  EXPECT_EQ(sleeper.metrics.counter("longwave_worker_skipped_steps_total").value() +
                sleeper.metrics.counter("longwave_worker_steps_total").value(),
            config_.run.steps);
  // After the round that it was late for it has the others' state, not its own.
  EXPECT_EQ(sleeper.host.reports[0].segment_hashes, other.host.reports[0].segment_hashes);
}

// No other worker finds a difference of its replica, and it may have to write the weights.
TEST_F(TrainerReturnTest, WhoHasCaughtUpWithTheEndReportsItsHashes) {
  Life other, sleeper;
  Live(other);
  shards_.on_settle = [&](const SegmentPush& push) -> std::optional<Settled> {
    return Settled{.round = push.round,
                   .segment = push.segment,
                   .merged = shards_.logs[push.segment][push.round],
                   .fate = Fate::kLate};
  };
  LiveToTheEnd(sleeper);
  ASSERT_THAT(sleeper.rounds(), ElementsAre(0, 5));
  EXPECT_EQ(sleeper.replica.batches.size(), 4u);
  const RoundReport& end = sleeper.host.reports.back();
  EXPECT_EQ(end.segment_hashes, other.host.reports.back().segment_hashes);
  EXPECT_EQ(end.step, 18u);
  EXPECT_EQ(end.tokens, 4u * 12);
}

TEST_F(TrainerReturnTest, AnUpdateThatIsGoneIsMadeUpFor) {
  Life other, sleeper;
  Live(other);
  KeepRounds(3);
  shards_.on_settle = [&](const SegmentPush& push) -> std::optional<Settled> {
    auto& log = shards_.logs[push.segment];
    if (push.round == 0 && push.segment == 1) {
      return Settled{.round = 0, .segment = 1, .fate = Fate::kUnknown, .compacted = true};
    }
    if (push.round == log.size()) log.push_back(push.payload);
    return Settled{.round = push.round, .segment = push.segment, .merged = log[push.round]};
  };
  LiveToTheEnd(sleeper);
  EXPECT_THAT(sleeper.rounds(), ElementsAre(3, 4, 5));
}

TEST_F(TrainerReturnTest, MoreFragmentsThanSegmentsAreToldOnce) {
  config_.sync.inner_steps = 9;
  config_.sync.fragments = 9;
  const auto segments = layout_.segments().size();
  ASSERT_LT(segments, 9u);
  Life life;
  testing::internal::CaptureStderr();
  Live(life);
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(life.end.ok()) << life.end;
  const std::string line = "sync.fragments: got 9, goes on with " + std::to_string(segments) + ":";
  EXPECT_THAT(log, HasSubstr(line));
  EXPECT_EQ(log.find(line), log.rfind(line)) << log;
}

TEST_F(TrainerReturnTest, UnderInnerNobodyJoinsLate) {
  config_.sync = {.signal = SignalKind::kGradient, .inner_steps = 1, .update = UpdateRule::kInner};
  Life joiner;
  joiner.host.first_round_ = kRoundNever;
  Live(joiner);
  EXPECT_EQ(joiner.end.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(joiner.end.message()), HasSubstr("sync.update inner or local"));
}

class TrainerCrashTest : public TrainerReturnTest {
 protected:
  void LiveUntilStopped(Life& life) {
    Live(life, true);
    EXPECT_TRUE(absl::IsCancelled(life.end)) << life.end;
  }
  // The checkpoint that is kept, if any, and is not stale.
  std::optional<Checkpoint> Last() {
    auto found = ReadLastCheckpoint(disk_, "state", 77, "worker-2", 2, ShapeOf(layout_));
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || !found->has_value()) return std::nullopt;
    EXPECT_FALSE((*found)->stale);
    return std::move((*found)->checkpoint);
  }
  template <typename Change>
  void ChangeLast(const Change& change) {
    std::optional<Checkpoint> last = Last();
    ASSERT_TRUE(last.has_value());
    change(*last);
    ASSERT_TRUE((*WorkerFolder::Open(&disk_, "state"))->Write(*last).ok());
  }

  // Ends the life in the sync of `round`, after its pushes are sent and perhaps merged, and before
  // the worker learns so. told: the worker is told to end. Otherwise it is killed, in the first
  // round from `round` on in which it has a checkpoint; returns the round.
  uint32_t CrashIn(uint32_t round, bool merged, bool told) {
    Life life;
    std::optional<uint32_t> crash;
    if (told) crash = round;
    shards_.on_settle = [&](const SegmentPush& push) -> std::optional<Settled> {
      auto& log = shards_.logs[push.segment];
      if (!crash.has_value() && push.round >= round && HasCheckpoint()) crash = push.round;
      if (push.round == crash) {
        life.host.stop = true;
        life.host.is_over = !told;  // at once, as a process that is killed
        return std::nullopt;
      }
      log.push_back(push.payload);
      return Settled{.round = push.round, .segment = push.segment, .merged = push.payload};
    };
    // Time for threads that write meanwhile.
    if (!told)
      life.host.on_state = [](const WorkerState&) { absl::SleepFor(absl::Milliseconds(1)); };
    LiveUntilStopped(life);
    shards_.on_settle = nullptr;
    for (const SegmentPush& push : shards_.pending) {
      // Copies the bytes as sent, since the dead process's memory is lost.
      const auto bytes = push.payload.bytes();
      sent_[push.segment] = Buffer(std::vector<std::byte>(bytes.begin(), bytes.end()));
      if (merged) shards_.logs[push.segment].push_back(sent_[push.segment]);
    }
    shards_.pending.clear();
    shards_.posts.clear();
    disk_.Restart(SimFileSystem::Stop::kPower);
    return crash.value_or(0);
  }
  bool HasCheckpoint() {
    const auto names = files_.List("state");
    return names.ok() && std::ranges::count(*names, "checkpoint") == 1;
  }
  // The lives since have pushed nothing to the round of the crash but what was sent then.
  void ExpectSentAgain(uint32_t round) const {
    size_t count = 0;
    for (const SegmentPush& push : shards_.posts) {
      EXPECT_GE(push.round, round);
      if (push.round != round) continue;
      ++count;
      EXPECT_EQ(push.payload, sent_.at(push.segment)) << push.segment;
    }
    EXPECT_GE(count, layout_.segments().size());
  }
  std::vector<uint64_t> Undisturbed() {
    Life life;
    LiveToTheEnd(life);
    KeepRounds(0);
    return life.hashes;
  }

  std::map<uint32_t, Buffer> sent_;  // by segment, in the round of the last crash
};

TEST_F(TrainerCrashTest, AfterACrashTheSamePushesAreSentAgainAndTheRunGoesOnBehindThem) {
  config_.run.steps = 402;
  for (const bool merged : {true, false}) {
    const uint32_t round = CrashIn(2, merged, /*told=*/false);
    ASSERT_GE(round, 2u);
    Life back;
    LiveToTheEnd(back, true);
    ExpectSentAgain(round);
    ASSERT_FALSE(back.rounds().empty());
    EXPECT_EQ(back.rounds().front(), round + 1);
    EXPECT_EQ(back.replica.batches, BatchesOf((round + 1) * 4));
    EXPECT_EQ(back.host.reports.back().tokens, 402u * 12);
    disk_ = SimFileSystem(1);
    KeepRounds(0);
  }
}

TEST_F(TrainerCrashTest, CountsWhatBecameOfEveryContribution) {
  CrashIn(2, /*merged=*/true, /*told=*/true);
  Life back;
  shards_.on_settle = [&](const SegmentPush& push) -> std::optional<Settled> {
    auto& log = shards_.logs[push.segment];
    if (push.round == log.size()) log.push_back(push.payload);
    const bool late = push.segment == 0 && push.round < 4;
    return Settled{.round = push.round,
                   .segment = push.segment,
                   .merged = log[push.round],
                   .fate = late ? Fate::kLate : Fate::kAccepted};
  };
  LiveToTheEnd(back, true);
  // The updates of the round of the crash, which the worker learns of while it resumes, and of the
  // two rounds after it.
  const auto segments = static_cast<double>(layout_.segments().size());
  EXPECT_EQ(back.metrics.counter("longwave_worker_pushes_total", {"late"}).value(), 2);
  EXPECT_EQ(back.metrics.counter("longwave_worker_pushes_total", {"accepted"}).value(),
            3 * segments - 2);
}

TEST_F(TrainerReturnTest, ARepairAfterTheLastRoundIsReportedAndTheEndToldAgain) {
  Life life;
  life.host.on_finish = [&] {
    if (life.host.finals.size() == 2) return true;
    shards_.fetches.clear();
    life.host.repair_ = Repair{.round = 5, .segments = {0}};
    life.host.sealing_round_ = 6;
    life.host.sealed_ = false;
    return false;
  };
  life.host.on_report = [&](const RoundReport& report) { life.host.sealed_ = report.round >= 5; };
  LiveToTheEnd(life);
  EXPECT_THAT(life.rounds(), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(life.host.reports.back().segment_hashes, life.hashes);
  EXPECT_THAT(shards_.fetches, ElementsAre(FakeShards::FetchCall{0, 0, 5}));
  EXPECT_EQ(life.host.finals.size(), 2u);
}

TEST_F(TrainerCrashTest, ASecondCrashBeforeTheNextPushChangesNothingThatWasSent) {
  CrashIn(2, /*merged=*/false, /*told=*/true);
  Life second;
  second.host.on_state = [&](const WorkerState& state) {
    second.host.stop |= state.step == 13;
    second.host.is_over = second.host.stop;
  };
  LiveUntilStopped(second);
  disk_.Restart(SimFileSystem::Stop::kPower);
  Life third;
  LiveToTheEnd(third, true);
  ExpectSentAgain(2);
  EXPECT_THAT(third.rounds(), ElementsAre(3, 4, 5));
  EXPECT_EQ(third.host.reports.back().tokens, 18u * 12);
}

TEST_F(TrainerCrashTest, AStaleCheckpointGivesTheOptimizerAlone) {
  CrashIn(3, /*merged=*/true, /*told=*/true);
  ASSERT_TRUE((*WorkerFolder::Open(&disk_, "state"))->Retire().ok());
  Life back;
  LiveToTheEnd(back, true);
  EXPECT_THAT(back.rounds(), ElementsAre(4, 5));
  // Pushes of round 3 were not repeated.
  for (const SegmentPush& push : shards_.posts) EXPECT_EQ(push.round, 4u);
  EXPECT_EQ(back.host.reports.back().tokens, 18u * 12);
}

TEST_F(TrainerCrashTest, WhoIsToldToEndKeepsWhatIsInFlight) {
  const std::vector<uint64_t> wanted = Undisturbed();
  for (const bool merged : {true, false}) {
    CrashIn(3, merged, /*told=*/true);
    Life back;
    LiveToTheEnd(back, true);
    EXPECT_EQ(back.hashes, wanted) << merged;
    EXPECT_THAT(back.rounds(), ElementsAre(4, 5));
    EXPECT_EQ(back.host.reports.back().tokens, 18u * 12);
    disk_ = SimFileSystem(1);
    KeepRounds(0);
  }
}

TEST_F(TrainerCrashTest, WhoIsToldToEndBetweenTwoStepsComesBackWithItsOptimizerAndResidual) {
  for (const uint32_t checkpoint_rounds : {1, 3}) {
    config_.cluster.checkpoint_rounds = checkpoint_rounds;
    Life life;
    life.host.on_state = [&](const WorkerState& state) { life.host.stop |= state.step == 10; };
    LiveUntilStopped(life);
    disk_.Restart(SimFileSystem::Stop::kPower);
    {
      const std::optional<Checkpoint> last = Last();
      ASSERT_TRUE(last.has_value());
      const Checkpoint& kept = *last;
      EXPECT_EQ(kept.round, 2u);
      EXPECT_EQ(kept.step, 10u);
      EXPECT_EQ(kept.tokens, 10u * 12);
      EXPECT_TRUE(kept.pushes.empty());
      EXPECT_EQ(kept.momentum, life.momentum);
      ASSERT_EQ(kept.blobs.size(), 4u);
      EXPECT_EQ(kept.blobs[0].name, "adamw.m");
      // β₁ᵗ, β₂ᵗ: of all ten steps.
      std::array<double, 2> powers;
      ASSERT_EQ(kept.blobs[2].bytes.size(), sizeof(powers));
      std::memcpy(powers.data(), kept.blobs[2].bytes.bytes().data(), sizeof(powers));
      EXPECT_NEAR(powers[0], std::pow(0.9, 10), 1e-12);
    }
    // The round is still open, so steps since the last signal are taken again.
    Life back;
    LiveToTheEnd(back, true);
    EXPECT_EQ(back.replica.batches, BatchesOf(8));
    EXPECT_THAT(back.rounds(), ElementsAre(2, 3, 4, 5));
    EXPECT_EQ(back.host.reports.back().tokens, (18u + 2) * 12);
    EXPECT_EQ(shards_.posts.front().accounted, 0u);
    const auto after = std::ranges::find(shards_.posts, 2u, &SegmentPush::round);
    ASSERT_NE(after, shards_.posts.end());
    EXPECT_EQ(after->accounted, 2u);  // the process has not begun with an empty residual
    disk_ = SimFileSystem(1);
    KeepRounds(0);
  }
}

TEST_F(TrainerCrashTest, WhoIsToldToEndWhileItValidatesKeepsItsResidual) {
  config_.cluster.checkpoint_rounds = 3;
  config_.run.validate_every = 1;
  Life life;
  life.host.on_state = [&](const WorkerState& state) {
    life.host.stop |= state.phase == WorkerPhase::kValidating && state.step == 8;
  };
  LiveUntilStopped(life);
  const std::optional<Checkpoint> last = Last();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->round, 2u);
  EXPECT_EQ(last->step, 8u);
  EXPECT_EQ(last->momentum, life.momentum);
}

TEST_F(TrainerCrashTest, WhoIsToldToEndWithoutCheckpointsKeepsNone) {
  config_.cluster.checkpoint_rounds = 0;
  CrashIn(2, true, /*told=*/true);
  EXPECT_FALSE(Last().has_value());
}

TEST_F(TrainerCrashTest, ADiskThatTakesNoLastCheckpointLeavesTheOneBefore) {
  for (const bool is_full : {false, true}) {
    Life life;
    life.host.on_state = [&](const WorkerState& state) {
      if (state.step != 6) return;
      life.host.stop = true;
      if (is_full) files_.Alone([&] { return disk_.faults.capacity_bytes = 1000; });
    };
    LiveUntilStopped(life);
    EXPECT_EQ(life.host.warnings_told.size(), is_full ? 1u : 0u);
    disk_.faults.capacity_bytes.reset();
    const std::optional<Checkpoint> last = Last();
    ASSERT_TRUE(last.has_value());
    EXPECT_EQ(last->round, 1u);
  }
}

TEST_F(TrainerCrashTest, AnotherOptimizersBlobsAreRefused) {
  CrashIn(2, /*merged=*/true, /*told=*/true);
  ChangeLast([](Checkpoint& last) { last.blobs[1].name = "muon.momentum"; });
  Life back;
  Live(back, true);
  EXPECT_EQ(back.end.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(back.end.message()), HasSubstr("got the optimizer's adamw.m of "));
  EXPECT_THAT(std::string(back.end.message()), HasSubstr("muon.momentum of "));
}

// An older version's checkpoint has no blob of the data.
TEST_F(TrainerCrashTest, OtherDataThanBeforeAreTold) {
  const auto log_of_return = [&](const std::function<void(Checkpoint&)>& change) {
    disk_ = SimFileSystem(1);
    KeepRounds(0);
    CrashIn(2, /*merged=*/true, /*told=*/true);
    ChangeLast(change);
    Life back;
    testing::internal::CaptureStderr();
    LiveToTheEnd(back, true);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(log_of_return([](Checkpoint& last) {
                EXPECT_EQ(last.blobs.back().name, "data-hash");
                last.blobs.back().bytes = Buffer(std::vector<std::byte>(8));
              }),
              HasSubstr("warning the data are not those that this worker trained on before"));
  EXPECT_EQ(log_of_return([](Checkpoint&) {}).find("trained on before"), std::string::npos);
  EXPECT_EQ(
      log_of_return([](Checkpoint& last) { last.blobs.pop_back(); }).find("trained on before"),
      std::string::npos);
}

TEST_F(TrainerCrashTest, AnotherRunsCheckpointIsLeftAlone) {
  CrashIn(2, /*merged=*/true, /*told=*/true);
  KeepRounds(0);
  Life life;
  ChangeLast([](Checkpoint& last) { last.run = 78; });
  LiveToTheEnd(life, true);
  EXPECT_THAT(life.rounds(), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(TrainerCrashTest, AFullDiskStopsCheckpointsAndNotTheRun) {
  const std::vector<uint64_t> wanted = Undisturbed();
  disk_.faults.capacity_bytes = 1000;
  Life life;
  LiveToTheEnd(life, true);
  EXPECT_EQ(life.hashes, wanted);
}

}  // namespace
}  // namespace longwave
