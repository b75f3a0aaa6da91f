#include "server/service/coordinator_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace longwave {
namespace {

WorkerState After(uint64_t step, uint64_t tokens, double computing, double syncing) {
  return {.phase = WorkerPhase::kTraining,
          .step = step,
          .tokens = tokens,
          .seconds_computing = computing,
          .seconds_syncing = syncing};
}

absl::Time AtSecond(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(WorkerPace, IsOfAWindowInWhichAStepWasMade) {
  WorkerPace pace;
  pace.Observe(After(10, 1000, 5, 1), AtSecond(0));
  EXPECT_FALSE(pace.figures().has_value());
  pace.Observe(After(12, 1200, 5.5, 1), AtSecond(0.9));  // too early to say
  EXPECT_FALSE(pace.figures().has_value());
  pace.Observe(After(14, 1400, 7, 2), AtSecond(4));
  ASSERT_TRUE(pace.figures().has_value());
  EXPECT_DOUBLE_EQ(pace.figures()->step_seconds, 0.5);
  EXPECT_DOUBLE_EQ(pace.figures()->tokens_per_second, 100);
  EXPECT_DOUBLE_EQ(pace.figures()->compute_ratio, 2.0 / 3);
}

TEST(WorkerPace, KeepsTheLastWindowWhileNoStepIsMade) {
  WorkerPace pace;
  pace.Observe(After(0, 0, 0, 0), AtSecond(0));
  pace.Observe(After(2, 20, 1, 0), AtSecond(2));
  pace.Observe(After(2, 20, 1, 8), AtSecond(10));
  EXPECT_DOUBLE_EQ(pace.figures()->tokens_per_second, 10);
  pace.Observe(After(4, 40, 2, 8), AtSecond(12));
  EXPECT_DOUBLE_EQ(pace.figures()->tokens_per_second, 2);
}

TEST(WorkerPace, AnotherProcessBeginsAnew) {
  WorkerPace pace;
  pace.Observe(After(0, 0, 0, 0), AtSecond(0));
  pace.Observe(After(10, 100, 5, 5), AtSecond(10));
  pace.Observe(After(8, 80, 0.1, 0), AtSecond(20));
  EXPECT_FALSE(pace.figures().has_value());
  pace.Observe(After(10, 100, 1.1, 0), AtSecond(22));
  EXPECT_DOUBLE_EQ(pace.figures()->step_seconds, 0.5);
}

// The tokens that its folder counts were trained before, and not within its first window.
TEST(WorkerPace, OfAProcessThatComesBackBeginsWithWhatItsFolderCounts) {
  WorkerPace pace;
  pace.Observe({}, AtSecond(0));
  pace.Observe(After(500, 50000, 250, 50), AtSecond(3));
  EXPECT_FALSE(pace.figures().has_value());
  pace.Observe(After(502, 50200, 251, 50), AtSecond(5));
  EXPECT_DOUBLE_EQ(pace.figures()->tokens_per_second, 100);
  EXPECT_DOUBLE_EQ(pace.figures()->step_seconds, 0.5);
}

class CoordinatorMetricsTest : public testing::Test {
 protected:
  double Value(std::string_view name, std::initializer_list<std::string_view> labels = {}) {
    return name.ends_with("_total") ? metrics_.counter(name, labels).value()
                                    : metrics_.gauge(name, labels).value();
  }
  void Refresh() { series_.Refresh(status_, refusals_); }
  static RegisterWorker Process(uint64_t incarnation) { return {.incarnation = incarnation}; }
  // A member that trains for the round.
  void AddMember(uint32_t worker, uint32_t round, WorkerPhase phase = WorkerPhase::kTraining) {
    MemberStatus member;
    member.member = {.worker = worker, .name = "worker", .first_round = 0};
    member.state.phase = phase;
    member.state.step = 1;
    member.state.round = round;
    member.state.tokens = 10;
    member.state.train_loss = 1.0 + worker;
    member.state.bytes = {.pushed = 1, .pulled = 2, .payload_pushed = 3, .payload_pulled = 4};
    member.heartbeat_age_s = worker;
    status_.members.push_back(member);
  }
  void AddRecord(uint32_t round, uint64_t step, uint32_t members, double seconds) {
    RoundRecord record;
    record.round = round;
    record.step = step;
    record.members = members;
    record.seconds = seconds;
    record.train_loss = 2;
    status_.records.push_back(record);
    status_.record_count = status_.records.size();
  }

  Metrics metrics_{MetricPart::kCoordinator};
  CoordinatorMetrics series_{&metrics_, 7, /*promises_equal_replicas=*/true};
  RunStatus status_{.phase = RunPhase::kTraining, .parameters = 100};
  Refusals refusals_;
};

TEST_F(CoordinatorMetricsTest, SaysHowTheRunIs) {
  AddRecord(0, 10, 2, 3);
  AddRecord(1, 20, 2, 5);
  status_.seconds = 9;
  status_.epoch = 4;
  status_.trouble = "shard 0 is silent";
  status_.validation_loss = 1.5;
  Refresh();
  EXPECT_EQ(Value("longwave_coordinator_phase", {"training"}), 1);
  EXPECT_EQ(Value("longwave_coordinator_phase", {"finished"}), 0);
  EXPECT_EQ(Value("longwave_coordinator_waiting"), 1);
  EXPECT_EQ(Value("longwave_coordinator_epoch"), 4);
  EXPECT_EQ(Value("longwave_coordinator_round"), 2);
  EXPECT_EQ(Value("longwave_coordinator_rounds_planned"), 7);
  EXPECT_EQ(Value("longwave_coordinator_rounds_finished_total"), 2);
  EXPECT_EQ(Value("longwave_coordinator_steps_total"), 20);
  EXPECT_EQ(Value("longwave_coordinator_progress_age_seconds"), 4);
  EXPECT_EQ(Value("longwave_coordinator_validation_loss"), 1.5);
  EXPECT_EQ(metrics_.histogram("longwave_coordinator_round_seconds").Read().sum, 5);
}

TEST_F(CoordinatorMetricsTest, ALossThatNobodyKnowsIsNotOnThePage) {
  AddRecord(0, 10, 1, 3);
  AddMember(0, 0);
  Refresh();
  EXPECT_EQ(Value("longwave_coordinator_train_loss"), 2);
  AddRecord(1, 20, 1, 5);
  status_.records.back().train_loss.reset();
  status_.records.erase(status_.records.begin());
  status_.members[0].state.train_loss.reset();
  Refresh();
  EXPECT_FALSE(metrics_.gauge("longwave_coordinator_train_loss").is_set());
  EXPECT_FALSE(metrics_.gauge("longwave_coordinator_worker_train_loss", {"max"}).is_set());
}

TEST_F(CoordinatorMetricsTest, CountsTheWarningsOfWorkersAndOfTheRun) {
  status_.warnings = {{"worker-0", "no seed"}, {"", "the same data"}, {"worker-1", "no seed"}};
  Refresh();
  EXPECT_EQ(Value("longwave_coordinator_warnings_total", {"worker"}), 2);
  EXPECT_EQ(Value("longwave_coordinator_warnings_total", {"run"}), 1);
}

TEST_F(CoordinatorMetricsTest, UnequalReplicasAreNoneOfAMethodThatPromisesNoEquality) {
  status_.replicas_equal = false;
  Refresh();
  EXPECT_EQ(Value("longwave_coordinator_replicas_unequal"), 1);
  Metrics other(MetricPart::kCoordinator);
  CoordinatorMetrics local(&other, 7, /*promises_equal_replicas=*/false);
  local.Refresh(status_, refusals_);
  EXPECT_EQ(other.gauge("longwave_coordinator_replicas_unequal").value(), 0);
}

TEST_F(CoordinatorMetricsTest, AddsTheRanksOfActiveMembersUp) {
  for (const uint32_t ranks : {8, 1, 0}) {  // 0: of a worker that does not know the field
    AddMember(ranks, 3);
    status_.members.back().state.ranks = ranks;
  }
  AddMember(9, 3, WorkerPhase::kLost);
  Refresh();
  EXPECT_EQ(Value("longwave_coordinator_members_active"), 3);
  EXPECT_EQ(Value("longwave_coordinator_ranks"), 10);
}

TEST_F(CoordinatorMetricsTest, CountsWhatOthersWouldHaveSent) {
  AddRecord(0, 10, 2, 1);
  AddRecord(1, 20, 3, 2);
  Refresh();
  EXPECT_EQ(Value("longwave_coordinator_ddp_bytes_total"), 4 * 100 * (10 * 2 + 10 * 3));
  EXPECT_EQ(Value("longwave_coordinator_diloco_bytes_total"), 4 * 100 * (2 + 3));
}

TEST_F(CoordinatorMetricsTest, ARecordCountsOnce) {
  AddRecord(0, 10, 2, 1);
  Refresh();
  status_.records.clear();
  Refresh();
  EXPECT_EQ(Value("longwave_coordinator_rounds_finished_total"), 1);
  EXPECT_EQ(Value("longwave_coordinator_ddp_bytes_total"), 4 * 100 * 20);
}

TEST_F(CoordinatorMetricsTest, WhatWasBeforeIsInTheSumsButNotInTheHistogram) {
  AddRecord(0, 10, 2, 1);
  series_.Know(status_);
  status_.records.clear();
  AddRecord(1, 20, 2, 3);
  status_.record_count = 2;
  Refresh();
  EXPECT_EQ(Value("longwave_coordinator_rounds_finished_total"), 2);
  EXPECT_EQ(Value("longwave_coordinator_steps_total"), 20);
  EXPECT_EQ(metrics_.histogram("longwave_coordinator_round_seconds").Read().counts.back(), 1u);
  EXPECT_EQ(metrics_.histogram("longwave_coordinator_round_seconds").Read().sum, 2);
}

TEST_F(CoordinatorMetricsTest, SumsAndSpreadsItsMembers) {
  AddMember(0, 9);
  AddMember(1, 8);
  AddMember(2, 5, WorkerPhase::kSyncing);
  AddMember(3, 0, WorkerPhase::kLost);
  AddMember(4, 0, WorkerPhase::kJoining);
  Refresh();
  EXPECT_EQ(Value("longwave_coordinator_members", {"training"}), 2);
  EXPECT_EQ(Value("longwave_coordinator_members", {"lost"}), 1);
  EXPECT_EQ(Value("longwave_coordinator_members_active"), 3);
  EXPECT_EQ(Value("longwave_coordinator_stragglers"), 1);
  EXPECT_EQ(Value("longwave_coordinator_worker_rounds_behind", {"max"}), 4);
  EXPECT_EQ(Value("longwave_coordinator_worker_rounds_behind", {"min"}), 0);
  // Joining workers count, too.
  EXPECT_EQ(Value("longwave_coordinator_heartbeat_age_seconds", {"max"}), 4);
  EXPECT_EQ(Value("longwave_coordinator_worker_train_loss", {"max"}), 3);
  EXPECT_EQ(Value("longwave_coordinator_tokens_total"), 50);
  EXPECT_EQ(Value("longwave_coordinator_bytes_total", {"pulled"}), 10);
  EXPECT_EQ(Value("longwave_coordinator_payload_bytes_total", {"pushed"}), 15);
}

TEST_F(CoordinatorMetricsTest, CountsWhoJoinsAndWhoGoesAndWhy) {
  for (const uint32_t worker : {0, 1, 2, 3}) series_.Registered(Process(1), worker);
  AddMember(0, 0, WorkerPhase::kLost);
  series_.Observe(status_);
  series_.Observe(status_);
  series_.Heard({.worker = 1, .failure = "the loss is nan"}, AtSecond(0));
  series_.Heard({.worker = 1, .failure = "the loss is nan"}, AtSecond(1));
  series_.Heard({.worker = 2, .leaving = true}, AtSecond(0));
  series_.Registered(Process(2), 3);  // another process
  series_.Expelled(3);
  EXPECT_EQ(Value("longwave_coordinator_joins_total", {"new"}), 4);
  EXPECT_EQ(Value("longwave_coordinator_joins_total", {"returned"}), 1);
  for (const char* reason : {"silent", "failed", "left", "replaced", "expelled"})
    EXPECT_EQ(Value("longwave_coordinator_departures_total", {reason}), 1) << reason;
  // The lost one is heard again.
  status_.members[0].state.phase = WorkerPhase::kJoining;
  series_.Observe(status_);
  EXPECT_EQ(Value("longwave_coordinator_joins_total", {"returned"}), 2);
}

// The answer to a registration was lost, and the process repeats the call.
TEST_F(CoordinatorMetricsTest, AProcessThatRegistersTwiceJoinsOnce) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  series_.Registered(Process(1), 0);
  series_.Registered(Process(1), 0);
  EXPECT_EQ(Value("longwave_coordinator_joins_total", {"new"}), 1);
  EXPECT_EQ(Value("longwave_coordinator_joins_total", {"returned"}), 0);
  EXPECT_EQ(Value("longwave_coordinator_departures_total", {"replaced"}), 0);
  // The known figures of the worker stay.
  series_.Heard({.worker = 0, .state = {.train_loss = nan}}, AtSecond(0));
  series_.Registered(Process(1), 0);
  series_.Heard({.worker = 0, .state = {.train_loss = nan}}, AtSecond(1));
  EXPECT_EQ(Value("longwave_coordinator_losses_not_finite_total", {"training"}), 1);
  // Registered again after a heartbeat timeout, the worker has returned and replaced no other.
  AddMember(0, 0, WorkerPhase::kLost);
  series_.Observe(status_);
  series_.Registered(Process(1), 0);
  EXPECT_EQ(Value("longwave_coordinator_departures_total", {"silent"}), 1);
  EXPECT_EQ(Value("longwave_coordinator_departures_total", {"replaced"}), 0);
  EXPECT_EQ(Value("longwave_coordinator_joins_total", {"returned"}), 1);
}

TEST_F(CoordinatorMetricsTest, CountsEachLossThatIsNotFiniteOnce) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto counted = [this](const char* loss) {
    return Value("longwave_coordinator_losses_not_finite_total", {loss});
  };
  for (const uint32_t worker : {0, 1, 2, 3}) series_.Registered(Process(1), worker);
  series_.Heard({.worker = 0, .state = {.train_loss = 2}}, AtSecond(0));
  EXPECT_EQ(counted("training"), 0);
  series_.Heard({.worker = 0, .state = {.train_loss = nan}}, AtSecond(1));
  series_.Heard({.worker = 0, .state = {.train_loss = nan}, .failure = "the loss is nan"},
                AtSecond(2));
  EXPECT_EQ(counted("training"), 1);
  EXPECT_EQ(counted("validation"), 0);
  series_.Heard({.worker = 1, .rounds = {{.validation_loss = -HUGE_VAL}}}, AtSecond(3));
  series_.Heard({.worker = 2, .final = FinalReport{.validation_loss = nan}}, AtSecond(3));
  series_.Heard({.worker = 3, .rounds = {{.validation_loss = 2}}, .final = FinalReport()},
                AtSecond(3));
  EXPECT_EQ(counted("training"), 1);
  EXPECT_EQ(counted("validation"), 2);
  // The next process counts separately.
  series_.Registered(Process(2), 0);
  series_.Heard({.worker = 0, .state = {.train_loss = HUGE_VAL}}, AtSecond(4));
  EXPECT_EQ(counted("training"), 2);
}

// A caller could name any number, and the metrics would keep each.
TEST_F(CoordinatorMetricsTest, AHeartbeatOfNobodyLeavesNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  series_.Heard({.worker = 77, .state = {.train_loss = nan}}, AtSecond(0));
  EXPECT_EQ(Value("longwave_coordinator_heartbeats_total", {"worker"}), 1);
  EXPECT_EQ(Value("longwave_coordinator_losses_not_finite_total", {"training"}), 0);
}

TEST_F(CoordinatorMetricsTest, CountsShardsThatComeBack) {
  series_.Registered(RegisterShard{.shard = 0, .incarnation = 1});
  series_.Registered(RegisterShard{.shard = 1, .incarnation = 2});
  series_.Registered(RegisterShard{.shard = 1, .incarnation = 2});  // the answer was lost
  EXPECT_EQ(Value("longwave_coordinator_shard_restarts_total"), 0);
  series_.Registered(RegisterShard{.shard = 1, .incarnation = 3});
  EXPECT_EQ(Value("longwave_coordinator_shard_restarts_total"), 1);
  status_.shards = {{.heartbeat_age_s = 1}, {.heartbeat_age_s = 9, .silent = true}};
  Refresh();
  EXPECT_EQ(Value("longwave_coordinator_shards", {"up"}), 1);
  EXPECT_EQ(Value("longwave_coordinator_shards", {"silent"}), 1);
  EXPECT_EQ(Value("longwave_coordinator_shard_heartbeat_age_seconds", {"max"}), 9);
}

TEST_F(CoordinatorMetricsTest, CountsRefusals) {
  series_.Refused(absl::AlreadyExistsError("taken"));
  series_.Refused(absl::InternalError("of no kind that the table knows"));
  refusals_.Count(Refusal::kExpelled);
  refusals_.Count(Refusal::kToken);
  Refresh();
  EXPECT_EQ(Value("longwave_coordinator_calls_refused_total", {"already_exists"}), 1);
  EXPECT_EQ(Value("longwave_coordinator_peers_refused_total", {"expelled"}), 1);
  EXPECT_EQ(Value("longwave_coordinator_tokens_refused_total"), 1);
}

TEST_F(CoordinatorMetricsTest, ThePageIsAsLargeWithManyMembersAsWithFew) {
  AddMember(0, 1);
  Refresh();
  const size_t small = metrics_.Page().size();
  for (uint32_t worker = 1; worker < 2000; ++worker) AddMember(worker, 1);
  Refresh();
  EXPECT_LT(metrics_.Page().size(), small + 500);  // longer numbers alone
}

}  // namespace
}  // namespace longwave
