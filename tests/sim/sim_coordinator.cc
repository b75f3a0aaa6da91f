#include "tests/sim/sim_coordinator.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

namespace longwave::sim {
namespace {

constexpr char kCoordinatorFolder[] = "coordinator";
constexpr absl::Duration kTickInterval = absl::Milliseconds(250);
// Size of a call and of its answer, small against the data plane's.
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
    : DiskProcess(
          env, 0,
          env.settings->canary == Canary::kUnsyncedRecord ? Canary::kUnsyncedLog : Canary::kNone,
          Probe::kCoordinatorLostPower, Probe::kCoordinatorCrashedInWrite),
      rng_(env.settings->seed, 2),
      disk_rng_(env.settings->seed, 3) {
  UseNewDisk(disk_rng_.Next());
}

void SimCoordinator::OnStart() {
  CoordinatorOptions options = env_.settings->MakeCoordinatorOptions();
  options.takes_as_newest = env_.settings->canary == Canary::kTrustedBackup && has_older_record();
  env_.trace->Add(static_cast<uint64_t>(Mark::kStart), {node(), generation()});
  std::optional<CoordinatorRecord> record;
  // A record of ten thousand workers cannot be rewritten with each of their reports, so large
  // worlds have no durable coordinator.
  if (env_.settings->coordinator_is_durable) {
    auto store = CoordinatorStore::Open(lying_.get(), kCoordinatorFolder,
                                        {.salt = static_cast<uint32_t>(disk_rng_.Next()),
                                         .appended_bytes_min = env_.settings->record_bytes_min});
    if (EndIfStopped()) return;
    if (!store.ok()) {
      if (absl::IsDataLoss(store.status()) || absl::IsFailedPrecondition(store.status())) {
        env_.checker->Violate(
            absl::StrCat("the coordinator cannot open its folder: ", store.status().ToString()));
      }
      return StartAgain();
    }
    store_ = *std::move(store);
    record = store_->TakeRecord();
    if (!store_->cut().empty()) env_.probes->Hit(Probe::kRecordCut);
  }
  if (record.has_value()) {
    if (const absl::Status fits = Coordinator::CheckRecord(options, *record); !fits.ok()) {
      return env_.checker->Violate(
          absl::StrCat("the coordinator's record: ", std::string(fits.message())));
    }
    saved_ = record->state;
    // The process before may have ended between the last write and its effects. Rounds that all
    // members have skipped are not counted, since the sealing round's record may replace the last
    // one's.
    if (!record->rounds.empty()) {
      rounds_finished_ =
          std::max(rounds_finished_, uint64_t{record->rounds.back().record.round} + 1);
    }
    core_ = std::make_unique<Coordinator>(options, *std::move(record));
    env_.probes->Hit(Probe::kCoordinatorRecovered);
    if (core_->phase() > phase_) Note(PhaseChanged{core_->phase(), core_->reason()});
  } else {
    core_ = std::make_unique<Coordinator>(options);
  }
  TickForEver();
}

void SimCoordinator::OnCrash() {
  env_.trace->Add(static_cast<uint64_t>(Mark::kCrash), {node()});
  env_.probes->Hit(Probe::kCoordinatorCrashed);
  core_.reset();
  store_.reset();
  unnoted_.clear();
  StopDisk();
  if (env_.settings->canary == Canary::kForgetfulCoordinator) UseNewDisk(disk_rng_.Next());
}

void SimCoordinator::CopyRecord() {
  if (up() && saved_.phase == RunPhase::kTraining) {
    copy_ = Folder{disk_->Copy(disk_rng_.Next()), saved_};
  }
}

bool SimCoordinator::PutCopyBack(bool is_cluster) {
  if (!copy_.has_value() || !up() || is_over()) return false;
  Crash();
  had_older_record_ = true;
  env_.probes->Hit(Probe::kCoordinatorGotOlderRecord);
  env_.trace->Print([&] {
    return absl::StrCat("the coordinator gets its record as it was in epoch ", copy_->saved.epoch);
  });
  const auto told = [](const CoordinatorState& state) {
    std::vector<uint32_t> epochs = {state.epoch};
    for (const ShardRecord& shard : state.shards) epochs.push_back(shard.told_epoch);
    return epochs;
  };
  if (is_cluster || told(copy_->saved) != told(saved_)) newest_ = Folder{std::move(disk_), saved_};
  UseDisk(std::move(copy_->disk));
  saved_ = std::move(copy_->saved);
  copy_.reset();
  return true;
}

void SimCoordinator::PutNewestBack() {
  if (!has_older_record()) return;
  Crash();
  UseDisk(std::move(newest_->disk));
  saved_ = std::move(newest_->saved);
  newest_.reset();
}

void SimCoordinator::TickForEver() {
  Step(Tick{});
  if (up()) After(kTickInterval, [this] { TickForEver(); });
}

std::string SimCoordinator::trouble() const {
  return core_ == nullptr ? "the coordinator is down" : core_->Status(0, now()).trouble;
}

uint64_t SimCoordinator::LogRecordsOf(uint32_t shard, uint64_t folder) const {
  for (const ShardRecord& each : saved_.shards) {
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
  env_.network->Send(client.node(), *this, Network::kControl, kCallBytes,
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
                       if (!up()) return;
                       env_.network->Send(node(), client, Network::kControl, kCallBytes,
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
  const absl::Status kept = Commit();
  if (!up()) return {};
  if (!kept.ok()) {
    std::erase_if(effects, IsAnswer);
    unnoted_.insert(unnoted_.end(), effects.begin(), effects.end());
    return {Refused{absl::UnavailableError(kept.message())}};
  }
  for (const CoordinatorEffect& effect : std::exchange(unnoted_, {})) Note(effect);
  for (const CoordinatorEffect& effect : effects) Note(effect);
  return effects;
}

absl::Status SimCoordinator::Commit() {
  if (store_ == nullptr) return absl::OkStatus();
  std::optional<CoordinatorWrite> write = store_->Take(*core_, now());
  if (!write.has_value()) return absl::OkStatus();
  if (env_.settings->canary == Canary::kUnkeptInterval) write->changes.intervals.reset();
  absl::Status status = store_->Write(*write);
  if (EndIfStopped()) return status;
  if (status.ok()) {
    saved_ = std::move(write->changes.state);
    if (write->is_whole) env_.probes->Hit(Probe::kRecordPublished);
  } else {
    env_.probes->Hit(Probe::kCoordinatorTrouble);
  }
  return status;
}

void SimCoordinator::Note(const CoordinatorEffect& effect) {
  if (const auto* finished = std::get_if<RoundFinished>(&effect)) {
    const uint32_t round = finished->record.round;
    env_.trace->Add(static_cast<uint64_t>(Mark::kRound), {round, finished->record.members});
    env_.trace->Print([&] {
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
    env_.trace->Print([&] {
      return absl::StrCat("the run is ", std::string(Name(changed->phase)), " ", changed->reason);
    });
    if (is_over() || changed->phase < phase_) {
      env_.checker->Violate(absl::StrCat("the run is ", std::string(Name(changed->phase)),
                                         " after it was ", std::string(Name(phase_))));
    }
    phase_ = changed->phase;
    reason_ = changed->reason;
    const CoordinatorRecord record = core_->Export(now());
    const CoordinatorState& state = record.state;
    // The checker may know the older record's rounds alone, where this one tells nobody any more.
    if (had_older_record()) env_.checker->Decided(record.intervals, true);
    if (phase_ == RunPhase::kFinished &&
        (state.next_round <= env_.checker->rounds() || !state.inequality.empty())) {
      env_.checker->Violate(absl::StrCat("the run is finished with round ", state.next_round,
                                         " next of ", env_.checker->rounds(),
                                         ", and not sealed: ", state.inequality));
    }
  } else if (const auto* notice = std::get_if<Notice>(&effect)) {
    env_.trace->Print([&] { return absl::StrCat("coordinator: ", notice->text); });
  } else if (const auto* refused = std::get_if<Refused>(&effect)) {
    env_.trace->Print([&] {
      return absl::StrCat("coordinator refuses: ", std::string(refused->status.message()));
    });
  } else if (const auto* reply = std::get_if<WorkerHeartbeatReply>(&effect)) {
    if (reply->membership.has_value()) NoteEpoch(*reply->membership);
    if (reply->intervals.has_value()) {
      const bool is_excused = had_older_record();
      env_.checker->Decided(is_excused ? core_->Export(now()).intervals : *reply->intervals,
                            is_excused);
      if (reply->intervals->changes.size() > 1) env_.probes->Hit(Probe::kIntervalChanged);
    }
  } else if (const auto* told = std::get_if<ShardHeartbeatReply>(&effect)) {
    if (told->membership.has_value()) NoteEpoch(*told->membership);
    for (const HashCheck& check : told->hash_checks) {
      if (check.equal) env_.probes->Hit(Probe::kSnapshotConfirmed);
    }
  }
}

void SimCoordinator::NoteStart(const Membership& membership) {
  const auto first = std::ranges::find(membership.members, false, &Member::other_start);
  if (first == membership.members.end()) return;  // lost for now
  knows_start_ = true;
  uint32_t place = 0;
  const char* const digits = first->name.data() + first->name.rfind('-') + 1;
  std::from_chars(digits, first->name.data() + first->name.size(), place);
  env_.checker->BeginWith(env_.settings->starts[place]);
}

void SimCoordinator::NoteEpoch(const Membership& membership) {
  if (has_older_record()) {
    // A worker that knows a later epoch must not get this one, and a worker that knows none takes
    // no part.
    return;
  }
  if (membership.epoch <= epoch_) {
    if (membership.epoch < epoch_) {
      env_.checker->Violate(
          absl::StrCat("epoch ", membership.epoch, " is told after epoch ", epoch_));
    }
    return;
  }
  if (!knows_start_) NoteStart(membership);
  epoch_ = membership.epoch;
  const auto size = static_cast<uint32_t>(membership.members.size());
  if (size < newest_epoch_size_) env_.probes->Hit(Probe::kEpochAfterLoss);
  if (newest_epoch_size_ > 0 && size > newest_epoch_size_) env_.probes->Hit(Probe::kEpochAfterJoin);
  newest_epoch_size_ = size;
}

}  // namespace longwave::sim
