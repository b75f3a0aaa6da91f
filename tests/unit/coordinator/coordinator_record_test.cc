// A coordinator as a record, and coordinators made of it.
#include "server/coordinator/coordinator_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/coordinator/coordinator_testing.h"
#include "tests/unit/coordinator/random_events.h"

namespace longwave {
namespace {

using testing::HasSubstr;

// --- answers as text, without values of clocks ------------------------------------------------

std::string WithoutSpans(const std::string& sentence) {
  static const std::regex span("[0-9.]+ s");
  return std::regex_replace(sentence, span, "T s");
}

struct Printer {
  std::ostringstream out;

  void Print(const Membership& membership) {
    out << " epoch " << membership.epoch << ":";
    for (const Member& member : membership.members) {
      out << " " << member.worker << "," << member.name << "," << member.first_round;
    }
  }
  void operator()(const WorkerRegistered& e) { out << "worker " << e.worker; }
  void operator()(const ShardRegistration& e) {
    out << "shard " << e.run << " " << e.restore << " " << e.rounds << " " << e.log_records << " "
        << e.told_epoch;
  }
  void operator()(const Refused& e) { out << "refused " << WithoutSpans(e.status.ToString()); }
  void operator()(const RoundFinished& e) {
    const RoundRecord& r = e.record;
    out << "round " << r.round << " " << r.step << " " << r.train_loss.value_or(-1) << " "
        << r.validation_loss.value_or(-1) << " " << r.tokens << " " << r.seconds << " "
        << r.tokens_per_second << " " << r.replicas_equal << " " << r.state_hash << " " << r.members
        << " " << r.compute_share;
  }
  void operator()(const PhaseChanged& e) {
    out << "phase " << Name(e.phase) << " " << WithoutSpans(e.reason);
  }
  void operator()(const Notice& e) { out << "notice " << WithoutSpans(e.text); }
  void operator()(const WorkerHeartbeatReply& e) {
    out << "reply " << static_cast<int>(e.instruction) << " " << WithoutSpans(e.reason) << " "
        << Name(e.phase) << " " << e.run << " " << e.validates << " " << e.sealing_round << " "
        << e.sealed;
    if (e.membership) Print(*e.membership);
    for (const ShardAddress& shard : e.shards) out << " " << shard.data_endpoint;
    if (!e.repair) return;
    out << " repair " << e.repair->round;
    for (const uint32_t segment : e.repair->segments) out << "," << segment;
  }
  void operator()(const ShardHeartbeatReply& e) {
    out << "shard reply " << static_cast<int>(e.instruction) << " " << WithoutSpans(e.reason) << " "
        << (e.manifest ? HashOf(*e.manifest) : 0);
    if (e.membership) Print(*e.membership);
    for (const HashCheck& v : e.hash_checks) {
      out << " " << v.segment << "," << v.round << "," << v.equal;
    }
  }
};

// Leaves out statements about waits, which begin anew with another coordinator.
std::string Text(const std::vector<CoordinatorEffect>& effects) {
  Printer printer;
  for (const CoordinatorEffect& effect : effects) {
    const auto* const notice = std::get_if<Notice>(&effect);
    if (notice != nullptr && notice->text.find("the run waits for it") != std::string::npos)
      continue;
    std::visit(printer, effect);
    printer.out << "\n";
  }
  return printer.out.str();
}

// --- the property ------------------------------------------------------------------------------

// Leaves out values that each heartbeat repeats and that are not written for themselves.
CoordinatorRecord WithoutWhatIsToldAgain(CoordinatorRecord record) {
  record.state.seconds = 0;
  for (WorkerRecord& worker : record.state.workers) {
    worker.state = {};
    worker.ready_round = kRoundNever;
  }
  for (ShardRecord& shard : record.state.shards) {
    shard.state = {};
    shard.known_epoch = 0;
    shard.trouble.clear();
  }
  return record;
}

// Two coordinators that see the same events: one runs on, the other is made anew now and then from
// its predecessor's record.
class Twins {
 public:
  explicit Twins(uint64_t seed)
      : events_(seed), steady_(RandomEvents::RunOptions()), moving_(RandomEvents::RunOptions()) {}

  void Run(uint32_t steps) {
    for (uint32_t i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      now_ += events_.Seconds();
      Both(events_.Next(steady_.Status(0, Now()), Run()));
      CheckChanges();
      if (events_.Chance(0.03)) Restart();
    }
  }

  std::map<std::string, int> seen;

 private:
  absl::Time Now() const { return absl::UnixEpoch() + absl::Seconds(now_); }
  uint64_t Run() const { return steady_.Export(Now()).state.run; }

  void Both(const CoordinatorEvent& event) {
    const std::vector<CoordinatorEffect> effects = steady_.Step(event, Now(), rng_);
    for (const CoordinatorEffect& effect : effects) {
      const auto* const reply = std::get_if<ShardHeartbeatReply>(&effect);
      if (reply == nullptr || !reply->membership) continue;
      events_.Told(std::get<ShardHeartbeat>(event).shard, reply->membership->epoch);
    }
    const std::string wanted = Text(effects);
    EXPECT_EQ(Text(moving_->Step(event, Now(), other_rng_)), wanted);
    for (const char* what :
         {"joins;", "joins again in another", "is heard again", "was not heard", "takes part from",
          "could not join", "leaves", "repair 1", "has the others' state", ",1,1", "is back at",
          "restores its range", "phase finished", "phase stopped", "another process has taken"}) {
      if (wanted.find(what) != std::string::npos) ++seen[what];
    }
  }

  // The record kept up to date by changes has all that counts.
  void CheckChanges() {
    if (const auto changes = steady_.Unsaved(Now())) {
      Apply(*changes, &kept_);
      steady_.Saved();
    }
    EXPECT_EQ(steady_.Unsaved(Now()), std::nullopt);
    CoordinatorRecord all = steady_.Export(Now());
    if (all.state.run == 0) return;
    EXPECT_TRUE(WithoutWhatIsToldAgain(std::move(all)) == WithoutWhatIsToldAgain(kept_));
  }

  void Restart() {
    if (steady_.phase() == RunPhase::kWaiting || steady_.is_over()) return;
    // Clocks start anew: so that both have the same, everyone is heard just before.
    const CoordinatorState before = steady_.Export(Now()).state;
    for (const WorkerRecord& worker : before.workers) {
      if (worker.lost) continue;
      Both(WorkerHeartbeat{.worker = worker.member.worker,
                           .incarnation = worker.incarnation,
                           .state = worker.state});
    }
    for (const ShardRecord& shard : before.shards) {
      Both(ShardHeartbeat{.shard = shard.address.shard,
                          .incarnation = shard.incarnation,
                          .known_epoch = shard.told_epoch,
                          .knows_manifest = true,
                          .state = shard.state});
    }
    // A wait that has begun would begin anew.
    if (!steady_.Status(0, Now()).trouble.empty()) return;
    CoordinatorRecord record = moving_->Export(Now());
    EXPECT_TRUE(Coordinator::CheckRecord(RandomEvents::RunOptions(), record).ok())
        << Coordinator::CheckRecord(RandomEvents::RunOptions(), record);
    moving_.emplace(RandomEvents::RunOptions(), record);
    EXPECT_TRUE(moving_->Export(Now()) == record);
    Both(Tick{});  // from here both know the time
    ++seen["restart"];
  }

  RandomEvents events_;
  Coordinator steady_;
  std::optional<Coordinator> moving_;
  CoordinatorRecord kept_;
  Rng rng_{7};
  Rng other_rng_{7};
  double now_ = 0;
};

TEST(CoordinatorRecord, ACoordinatorMadeFromItGivesTheSameAnswers) {
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Twins twins(seed);
    twins.Run(600);
    for (const auto& [what, count] : twins.seen) seen[what] += count;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  for (const char* what :
       {"joins;", "joins again in another", "is heard again", "was not heard", "takes part from",
        "could not join", "leaves", "repair 1", "has the others' state", ",1,1", "is back at",
        "restores its range", "phase finished", "phase stopped", "another process has taken",
        "restart"}) {
    EXPECT_GT(seen[what], 0) << "no run had: " << what;
  }
}

// --- changes, one by one -----------------------------------------------------------------------

class CoordinatorRecordTest : public CoordinatorTest {
 protected:
  bool Changes(const CoordinatorEvent& event) {
    coordinator_->Saved();
    Step(event);
    return coordinator_->Unsaved(absl::UnixEpoch()).has_value();
  }
};

TEST_F(CoordinatorRecordTest, WhatComesWithEveryHeartbeatIsNoChange) {
  Begin(Options(2, 1));
  EXPECT_FALSE(Changes(Beat(0)));
  EXPECT_FALSE(Changes(ShardAt(0, 4)));
  EXPECT_FALSE(Changes(Tick{}));
  EXPECT_FALSE(Changes(Worker(0)));  // again
  EXPECT_TRUE(Changes(Beat(0, {Report(0)})));
  EXPECT_FALSE(Changes(Beat(0, {Report(0)})));
  EXPECT_TRUE(Changes(Beat(1, {Report(0)})));
  EXPECT_TRUE(Changes(Worker(2)));
  EXPECT_TRUE(Changes(StopRequested{"enough"}));
}

TEST_F(CoordinatorRecordTest, ChangesHoldWhatIsNewAndNotTheWholeRun) {
  Begin(Options(1, 1));
  for (uint32_t round = 0; round < 5; ++round) Step(Beat(0, {Report(round)}));
  coordinator_->Saved();
  Step(Worker(1));
  Step(Beat(0, {Report(5)}));
  const auto changes = coordinator_->Unsaved(absl::UnixEpoch());
  ASSERT_TRUE(changes);
  EXPECT_EQ(changes->rounds.size(), 1u);
  EXPECT_TRUE(changes->reports.empty());  // the finished round has it
  EXPECT_FALSE(changes->manifest_changed);
  EXPECT_EQ(changes->state.workers.size(), 2u);
}

TEST_F(CoordinatorRecordTest, SilenceCountsFromTheNewCoordinatorsFirstStep) {
  Begin(Options(2, 1));
  now_ = 25;
  Step(Beat(0));
  const CoordinatorRecord record = coordinator_->Export(absl::UnixEpoch() + absl::Seconds(now_));
  coordinator_.emplace(Options(2, 1), record);
  now_ = 1000;
  Step(Tick{});
  EXPECT_EQ(Status().epoch, 1u);
  EXPECT_EQ(Status().seconds, 25);  // the time in between is no training
  Pass(1030, {0});
  EXPECT_EQ(Status().epoch, 1u);
  Pass(1031, {0});
  EXPECT_EQ(Status().members[1].state.phase, WorkerPhase::kLost);
}

// --- records that are none ---------------------------------------------------------------------

TEST_F(CoordinatorRecordTest, ARecordOfOtherSettingsIsRefused) {
  Begin(Options(1, 1));
  CoordinatorOptions options = Options(1, 1);
  options.settings = "run.steps: 1\n";
  EXPECT_EQ(Coordinator::CheckRecord(options, coordinator_->Export(absl::UnixEpoch())).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorRecordTest, ARecordOfAShorterRunIsThatOfTheSame) {
  Begin(Options(1, 1));
  CoordinatorRecord record = coordinator_->Export(absl::UnixEpoch());
  record.state.settings = "run.seed: 1\nrun.steps: 3\n";
  CoordinatorOptions options = Options(1, 1);
  options.settings = "run.seed: 1\nrun.steps: 40\n";
  EXPECT_TRUE(Coordinator::CheckRecord(options, record).ok());
  options.settings = "run.seed: 2\nrun.steps: 40\n";
  EXPECT_FALSE(Coordinator::CheckRecord(options, record).ok());
}

TEST_F(CoordinatorRecordTest, ARecordWhosePartsContradictEachOtherIsRefused) {
  Begin(Options(2, 2));
  Step(Beat(0, {Report(0), Report(1), Report(2)}));
  Step(Beat(1, {Report(0)}));
  const CoordinatorRecord good = coordinator_->Export(absl::UnixEpoch());
  ASSERT_TRUE(Coordinator::CheckRecord(Options(2, 2), good).ok());
  const std::map<std::string, std::function<void(CoordinatorRecord&)>> damages = {
      {"no manifest", [](auto& r) { r.manifest.reset(); }},
      {"worker 0 is out of order", [](auto& r) { r.state.workers[1].member.worker = 0; }},
      {"two workers are named worker-0",
       [](auto& r) { r.state.workers[1].member.name = "worker-0"; }},
      {"shard 2 is out of order", [](auto& r) { r.state.shards[1].address.shard = 2; }},
      {"1 shards in training", [](auto& r) { r.state.shards.pop_back(); }},
      {"finished round 1 is out of order", [](auto& r) { r.rounds[0].record.round = 1; }},
      {"the report of round 1 by worker 0 is out of order",
       [](auto& r) { r.state.next_round = 2; }},
      {"the report of round 11", [](auto& r) { r.reports[1].report.round = 11; }},
      {"a report of worker 7", [](auto& r) { r.reports[1].member.worker = 7; }},
      {"3 segment hashes",
       [](auto& r) {
         r.reports[0].report.segment_hashes = {1, 2, 3};
       }},
  };
  for (const auto& [why, damage] : damages) {
    CoordinatorRecord bad = good;
    damage(bad);
    const absl::Status status = Coordinator::CheckRecord(Options(2, 2), bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

}  // namespace
}  // namespace longwave
