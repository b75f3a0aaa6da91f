#include "tests/sim/sim_coordinator.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

namespace longwave::sim {
namespace {

constexpr absl::Duration kTickInterval = absl::Milliseconds(250);
// Of a call and its answer; they are small beside what the data plane carries.
constexpr uint64_t kCallBytes = 300;

bool IsAnswer(const CoordinatorEffect& effect) {
  return std::holds_alternative<WorkerRegistered>(effect) ||
         std::holds_alternative<ShardRegistration>(effect) ||
         std::holds_alternative<WorkerHeartbeatReply>(effect) ||
         std::holds_alternative<ShardHeartbeatReply>(effect) ||
         std::holds_alternative<Refused>(effect);
}

}  // namespace

SimCoordinator::SimCoordinator(const Environment& env)
    : Process(env.scheduler, 0), env_(env), rng_(env.settings->seed, 2) {}

void SimCoordinator::OnStart() {
  const CoordinatorOptions options = env_.settings->MakeCoordinatorOptions();
  env_.trace->Add(static_cast<uint64_t>(Mark::kStart), {node(), generation()});
  const bool forgets = env_.settings->canary == Canary::kForgetfulCoordinator;
  if (record_.has_value() && !forgets) {
    const absl::Status fits = Coordinator::CheckRecord(options, *record_);
    if (!fits.ok()) {
      return env_.checker->Violate(
          absl::StrCat("the coordinator's record: ", std::string(fits.message())));
    }
    core_ = std::make_unique<Coordinator>(options, *record_);
    env_.probes->Hit(Probe::kCoordinatorRecovered);
  } else {
    core_ = std::make_unique<Coordinator>(options);
  }
  TickForEver();
}

void SimCoordinator::OnCrash() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kCrash), {node()});
  env_.probes->Hit(Probe::kCoordinatorCrashed);
  core_.reset();
}

void SimCoordinator::CopyRecord() {
  if (record_.has_value() && record_->state.phase == RunPhase::kTraining) copy_ = record_;
}

bool SimCoordinator::PutCopyBack() {
  if (!copy_.has_value() || !up() || is_over()) return false;
  Crash();
  had_older_record_ = true;
  env_.probes->Hit(Probe::kCoordinatorGotOlderRecord);
  env_.trace->Tell([&] {
    return absl::StrCat("the coordinator gets its record as it was in epoch ", copy_->state.epoch);
  });
  const auto told = [](const CoordinatorRecord& record) {
    std::vector<uint32_t> epochs = {record.state.epoch};
    for (const ShardRecord& shard : record.state.shards) epochs.push_back(shard.told_epoch);
    return epochs;
  };
  if (told(*copy_) != told(*record_)) newest_ = record_;
  record_ = std::exchange(copy_, std::nullopt);
  return true;
}

void SimCoordinator::PutNewestBack() {
  if (!has_older_record()) return;
  Crash();
  record_ = std::exchange(newest_, std::nullopt);
}

void SimCoordinator::TickForEver() {
  Step(Tick{});
  After(kTickInterval, [this] { TickForEver(); });
}

std::string SimCoordinator::trouble() const {
  return core_ == nullptr ? "the coordinator is down" : core_->Status(0, now()).trouble;
}

uint64_t SimCoordinator::LogRecordsOf(uint32_t shard, uint64_t folder) const {
  if (!record_.has_value()) return 0;
  for (const ShardRecord& each : record_->state.shards) {
    if (each.address.shard == shard && each.folder == folder) return each.state.log_records;
  }
  return 0;
}

void SimCoordinator::Call(Process& client, CoordinatorEvent event, Done done) {
  struct Pending {
    Done done;
    bool answered = false;
  };
  auto pending = std::make_shared<Pending>(Pending{std::move(done), false});
  const uint64_t caller = client.generation();
  const auto answer = [pending, caller, &client](const absl::StatusOr<CoordinatorEffect>& result) {
    if (pending->answered || client.generation() != caller) return;
    pending->answered = true;
    pending->done(result);
  };
  env_.trace->Add(static_cast<uint64_t>(Mark::kCall), {client.node(), event.index()});
  env_.network->Send(client.node(), *this, kCallBytes, Network::Kind::kStream,
                     [this, event = std::move(event), answer, &client] {
                       absl::StatusOr<CoordinatorEffect> result =
                           absl::InternalError("the coordinator gave no answer");
                       for (CoordinatorEffect& effect : Step(event)) {
                         if (!IsAnswer(effect)) continue;
                         const auto* const refused = std::get_if<Refused>(&effect);
                         if (refused != nullptr) {
                           result = refused->status;
                         } else {
                           result = std::move(effect);
                         }
                       }
                       env_.network->Send(node(), client, kCallBytes, Network::Kind::kStream,
                                          [answer, result] { answer(result); });
                     });
  scheduler_->After(kCallPatience, [this, pending, caller, answer, &client] {
    if (pending->answered || client.generation() != caller) return;
    env_.probes->Hit(Probe::kCallUnanswered);
    client.Deliver([answer] { answer(absl::UnavailableError("nobody answered")); });
  });
}

std::vector<CoordinatorEffect> SimCoordinator::Step(const CoordinatorEvent& event) {
  std::vector<CoordinatorEffect> effects = core_->Step(event, now(), rng_);
  // A record of ten thousand workers is not rewritten with each of their reports: large worlds do
  // without a coordinator that comes back.
  if (env_.settings->coordinator_is_durable) {
    if (const std::optional<CoordinatorChanges> changes = core_->Unsaved(now())) {
      if (!record_.has_value()) record_.emplace();
      Apply(*changes, &*record_);
      core_->Saved();
    }
  }
  for (const CoordinatorEffect& effect : effects) Note(effect);
  return effects;
}

void SimCoordinator::Note(const CoordinatorEffect& effect) {
  if (const auto* finished = std::get_if<RoundFinished>(&effect)) {
    const uint32_t round = finished->record.round;
    env_.trace->Add(static_cast<uint64_t>(Mark::kRound), {round, finished->record.members});
    env_.trace->Tell([&] {
      return absl::StrCat("round ", round, " is finished by ", finished->record.members,
                          " members, replicas ",
                          finished->record.replicas_equal ? "equal" : "not equal");
    });
    if (round < rounds_finished_ && !had_older_record()) {
      env_.checker->Violate(
          absl::StrCat("round ", round, " is finished after round ", rounds_finished_ - 1));
    }
    rounds_finished_ = std::max<uint64_t>(rounds_finished_, round + 1);
  } else if (const auto* changed = std::get_if<PhaseChanged>(&effect)) {
    env_.trace->Add(static_cast<uint64_t>(Mark::kPhase), {static_cast<uint64_t>(changed->phase)});
    env_.trace->Tell([&] {
      return absl::StrCat("the run is ", std::string(Name(changed->phase)), " ", changed->reason);
    });
    if (is_over() || changed->phase < phase_) {
      env_.checker->Violate(absl::StrCat("the run is ", std::string(Name(changed->phase)),
                                         " after it was ", std::string(Name(phase_))));
    }
    phase_ = changed->phase;
    reason_ = changed->reason;
  } else if (const auto* notice = std::get_if<Notice>(&effect)) {
    env_.trace->Tell([&] { return absl::StrCat("coordinator: ", notice->text); });
  } else if (const auto* refused = std::get_if<Refused>(&effect)) {
    env_.trace->Tell([&] {
      return absl::StrCat("coordinator refuses: ", std::string(refused->status.message()));
    });
  } else if (const auto* reply = std::get_if<WorkerHeartbeatReply>(&effect)) {
    if (reply->membership.has_value()) NoteEpoch(*reply->membership);
  } else if (const auto* told = std::get_if<ShardHeartbeatReply>(&effect)) {
    if (told->membership.has_value()) NoteEpoch(*told->membership);
    for (const SnapshotVerdict& verdict : told->verdicts) {
      if (verdict.equal) env_.probes->Hit(Probe::kSnapshotConfirmed);
    }
  }
}

void SimCoordinator::NoteEpoch(const Membership& membership) {
  if (has_older_record()) {
    // Who knows a later one must not be told, and who knows none takes part in nothing.
    return;
  }
  if (membership.epoch <= epoch_) {
    if (membership.epoch < epoch_) {
      env_.checker->Violate(
          absl::StrCat("epoch ", membership.epoch, " is told after epoch ", epoch_));
    }
    return;
  }
  epoch_ = membership.epoch;
  const auto size = static_cast<uint32_t>(membership.members.size());
  if (size < newest_epoch_size_) env_.probes->Hit(Probe::kEpochAfterLoss);
  if (newest_epoch_size_ > 0 && size > newest_epoch_size_) env_.probes->Hit(Probe::kEpochAfterJoin);
  newest_epoch_size_ = size;
}

}  // namespace longwave::sim
