#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "server/coordinator/sentences.h"

namespace longwave {
namespace {

uint64_t IdentityOf(const RegisterWorker& request) {
  return request.identity != 0 ? request.identity : request.incarnation;
}

// A registration that was long under way must not take a place back, so each place remembers its
// former incarnations.
constexpr size_t kFormerMax = 16;

bool WantsAnswer(const CoordinatorEvent& event) {
  return !std::holds_alternative<Tick>(event) && !std::holds_alternative<StopRequested>(event) &&
         !std::holds_alternative<WorkerExpelled>(event);
}

void AddFormer(uint64_t incarnation, std::vector<uint64_t>* former) {
  if (former->size() == kFormerMax) former->erase(former->begin());
  former->push_back(incarnation);
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options)
    : options_(options), ledger_(options.rounds) {
  if (options.interval) schedule_.emplace(*options.interval, options.heartbeat_timeout);
}

std::vector<CoordinatorEffect> Coordinator::Step(const CoordinatorEvent& event, absl::Time now,
                                                 Rng& rng) {
  if (!first_step_) {
    first_step_ = now;
    // A coordinator made of a record starts the heartbeat timeouts here.
    for (auto& [index, worker] : workers_) worker.heard = now;
    for (auto& [index, shard] : shards_) shard.heard = now;
    if (phase_ == RunPhase::kTraining) training_began_ = now;
  }
  while (run_ == 0) {
    run_ = rng.Next();
    unsaved_ = true;
  }
  Effects effects;
  if (outdated_.empty()) {
    std::visit([&](const auto& e) { On(e, now, effects); }, event);
  } else if (std::holds_alternative<ShardHeartbeat>(event)) {
    effects.push_back(ShardHeartbeatReply{.reason = outdated_});
  } else if (WantsAnswer(event)) {
    effects.push_back(Refused{Unavailable(outdated_)});
  }
  return effects;
}

void Coordinator::On(const RegisterWorker& request, absl::Time now, Effects& effects) {
  if (absl::Status status = CheckRegistration(request, now); !status.ok()) {
    effects.push_back(Refused{std::move(status)});
    return;
  }
  if (const std::string trace = TraceIn(request); !trace.empty())
    return OnTrace(trace, now, effects);
  if (Worker* const known = FindWorker(request.name); known != nullptr) {
    const bool is_same = known->incarnation == request.incarnation;
    effects.push_back(WorkerRegistered{known->member.worker});
    known->heard = now;
    if (is_same && !known->lost) return;  // the first answer was lost
    if (!is_same) ReplaceProcess(*known, request);
    if (phase_ == RunPhase::kWaiting) return BeginTrainingIfComplete(now, effects);
    Join(*known, is_same ? "registers and joins again" : "joins again in another process", effects);
    FinishRounds(now, effects);
    return FinishRunIfDone(now, effects);
  }
  if (!manifest_) {
    const absl::StatusOr<uint64_t> segments =
        options_.segment_count(request.manifest, request.layout_hash);
    absl::Status fits = segments.status();
    if (fits.ok()) fits = CheckStart(request, *segments);
    if (!fits.ok()) {
      effects.push_back(Refused{std::move(fits)});
      return;
    }
    ledger_.SetSegmentCount(*segments);
  }
  uint32_t index = 0;
  while (workers_.contains(index)) ++index;
  Worker& worker = workers_[index];
  worker.member = {index, request.name, 0, request.data_key};
  worker.identity = IdentityOf(request);
  worker.process = request.process;
  worker.incarnation = request.incarnation;
  worker.heard = now;
  worker.alike = request.alike;
  SetStart(worker, request.start_hashes);
  unsaved_ = true;
  if (!manifest_) {
    manifest_ = request.manifest;
    layout_hash_ = request.layout_hash;
    manifest_unsaved_ = true;
  }
  effects.push_back(WorkerRegistered{index});
  if (phase_ == RunPhase::kTraining) return Join(worker, "joins", effects);
  Note(effects, Describe(worker.member), " registered, ", workers_.size(), " of ",
       options_.workers_wanted);
  BeginTrainingIfComplete(now, effects);
}

void Coordinator::ReplaceProcess(Worker& worker, const RegisterWorker& request) {
  AddFormer(worker.incarnation, &worker.former);
  worker.identity = IdentityOf(request);
  worker.process = request.process;
  worker.incarnation = request.incarnation;
  worker.member.data_key = request.data_key;
  worker.alike = request.alike;
  SetStart(worker, request.start_hashes);
  SetWork(WorkOf(std::exchange(worker.state, {})), &worker.state);
  worker.final.reset();
  worker.repair.reset();
  ledger_.Restart(worker.member.worker);
  unsaved_ = true;
}

void Coordinator::On(const RegisterShard& request, absl::Time now, Effects& effects) {
  if (absl::Status status = CheckRegistration(request, now); !status.ok()) {
    effects.push_back(Refused{std::move(status)});
    return;
  }
  if (goes_on_ && phase_ == RunPhase::kWaiting && request.run != 0) {
    return RefuseAll(absl::StrCat("the folder of shard ", request.shard, " has a log of this run, ",
                                  "wanted none before the run begins"),
                     effects);
  }
  const bool is_new = !shards_.contains(request.shard);
  Shard& shard = shards_[request.shard];
  if (!is_new && shard.incarnation == request.incarnation) {
    shard.heard = now;
    effects.push_back(AnswerTo(shard));
    return;
  }
  if (!is_new) {
    AddFormer(shard.incarnation, &shard.former);
    // The data plane runs on without the coordinator, so rounds may have been closed that no
    // heartbeat has reported. The members know the rounds, and say so if there were none.
    shard.restore = request.run == 0 && phase_ == RunPhase::kTraining;
  }
  const absl::Duration silence = is_new ? absl::ZeroDuration() : now - shard.heard;
  shard.address = {request.shard, request.data_endpoint, request.control_endpoint};
  shard.incarnation = request.incarnation;
  if (request.run == 0) shard.state.log_records = 0;  // the log begins anew
  shard.folder = request.folder;
  shard.known_epoch = 0;
  shard.trouble.clear();
  shard.heard = now;
  shard.silent = false;
  unsaved_ = true;
  effects.push_back(AnswerTo(shard));
  if (phase_ == RunPhase::kWaiting) {
    Note(effects, "shard ", request.shard, " registered, ", shards_.size(), " of ",
         options_.shards_wanted);
    return BeginTrainingIfComplete(now, effects);
  }
  // The new epoch tells workers the shard's new address.
  BeginEpoch();
  Note(effects, "shard ", request.shard, " is back at ", request.data_endpoint, " after ",
       FormatSeconds(silence), shard.restore ? ", without its folder: it restores its range" : "",
       "; ", Members());
}

ShardRegistration Coordinator::AnswerTo(const Shard& shard) const {
  const auto finished = static_cast<uint32_t>(std::min<uint64_t>(ledger_.next_round(), rounds()));
  return {run_, shard.restore, finished, shard.state.log_records, shard.told_epoch};
}

void Coordinator::On(const WorkerHeartbeat& heartbeat, absl::Time now, Effects& effects) {
  if (const std::string trace = TraceIn(heartbeat); !trace.empty())
    return RefuseAll(trace, effects);
  if (absl::Status status = CheckHeartbeat(heartbeat); !status.ok()) {
    // The Unavailable worker is alive and will retry.
    const auto asker = workers_.find(heartbeat.worker);
    if (absl::IsUnavailable(status) && asker != workers_.end() &&
        asker->second.incarnation == heartbeat.incarnation) {
      asker->second.heard = now;
    }
    effects.push_back(Refused{std::move(status)});
    return;
  }
  const auto found = workers_.find(heartbeat.worker);
  // An unknown worker gets past CheckHeartbeat only once the run is over.
  if (found == workers_.end() || found->second.incarnation != heartbeat.incarnation) {
    effects.push_back(ReplyTo(heartbeat));
    return;
  }
  for (const std::string& text : heartbeat.warnings) Warn(found->second.member.name, text, effects);
  const bool failed = !heartbeat.failure.empty();
  if (phase_ == RunPhase::kWaiting && (heartbeat.leaving || failed)) {
    const std::string who = Describe(found->second.member);
    if (failed) last_loss_ = absl::StrCat(who, ": ", heartbeat.failure);
    Note(effects, failed ? last_loss_ : absl::StrCat(who, " leaves"),
         failed ? "; it gives" : " and gives", " its place up");
    DropBeforeStart(heartbeat.worker, effects);
    effects.push_back(
        WorkerHeartbeatReply{.instruction = Instruction::kStop,
                             .reason = absl::StrCat("worker ", heartbeat.worker, kIsNoMember),
                             .phase = phase_,
                             .run = run_});
    return;
  }
  Worker& worker = found->second;
  if (!worker.left || is_over()) OnMemberHeartbeat(worker, heartbeat, now, effects);
  if (is_over()) worker.told = true;
  effects.push_back(ReplyTo(heartbeat));
}

void Coordinator::OnMemberHeartbeat(Worker& worker, const WorkerHeartbeat& heartbeat,
                                    absl::Time now, Effects& effects) {
  const absl::Duration silence = now - worker.heard;
  worker.heard = now;
  OnWorkerState(worker, heartbeat);
  if (!heartbeat.failure.empty()) worker.state.phase = WorkerPhase::kFailed;
  if (is_over()) return;
  if (worker.lost) {
    Join(worker, absl::StrCat("is heard again after ", FormatSeconds(silence), " and joins again"),
         effects);
  }
  if (std::string failure = FailureIn(heartbeat); !failure.empty()) {
    return Fail(worker, failure, now, effects);
  }
  OnReports(worker, heartbeat, effects);
  const uint32_t ready_round = heartbeat.ready_round.value_or(kRoundNever);
  if (ready_round != kRoundNever && heartbeat.known_epoch >= worker.joined_epoch && !worker.begun) {
    worker.ready_round = ready_round;
    if (phase_ == RunPhase::kTraining && worker.is_joining()) Activate(worker, effects);
  }
  if (heartbeat.leaving) Leave(worker, "leaves", effects);
  const uint32_t next_round = ledger_.next_round();
  FinishRounds(now, effects);
  // Not by reports that are in the record.
  has_finished_any_ |= !heartbeat.rounds.empty() && ledger_.next_round() != next_round;
  FinishRunIfDone(now, effects);
}

void Coordinator::OnWorkerState(Worker& worker, const WorkerHeartbeat& heartbeat) {
  const uint32_t index = worker.member.worker;
  const WorkTotals done = WorkOf(worker.state);
  const bool is_starting = heartbeat.state.phase == WorkerPhase::kStarting;
  // A process that is starting has not yet read its folder's counts.
  if (worker.state.phase == WorkerPhase::kStarting && !(is_starting && heartbeat.rounds.empty())) {
    const WorkTotals said =
        is_starting ? WorkOf(heartbeat.rounds.front()) : WorkOf(heartbeat.state);
    unsaved_ |= ledger_.BeginCount(index, said, done);
  }
  worker.state = heartbeat.state;
  SetWork(phase_ == RunPhase::kWaiting
              ? WorkTotals()
              : Most(done, ledger_.WholeWork(index, WorkOf(heartbeat.state))),
          &worker.state);
}

void Coordinator::OnReports(Worker& worker, const WorkerHeartbeat& heartbeat, Effects& effects) {
  const uint32_t index = worker.member.worker;
  const bool had_rounds_left = !ledger_.HasReportedEnd(index);
  // After the run was sealed no report was asked for.
  if (!IsSealed() && ledger_.Add(worker.member, heartbeat.rounds)) {
    unsaved_ = true;
    worker.begun |= worker.is_active();
    worker.final.reset();  // the final report described an older replica
  }
  if (!worker.is_active()) return;  // a member without a first round reports no rounds
  // After an outage of the coordinator each worker's next heartbeats report all rounds in between,
  // so only a heartbeat without reports proves that the worker is behind.
  const bool behind = ledger_.IsBehind(worker.member, options_.rounds_behind_max);
  if (!behind || heartbeat.rounds.empty()) SetBehind(worker, behind, effects);
  if (had_rounds_left && ledger_.HasReportedEnd(index) && AnyoneHasRoundsLeft()) {
    // The new epoch tells shards that this worker pushes no more.
    BeginEpoch();
  }
  // The worker may receive the duty of writing the weights after its final report.
  const bool writes = heartbeat.final && !heartbeat.final->model_file.empty();
  if (!heartbeat.final || (worker.final && !(writes && worker.final->model_file.empty()))) return;
  worker.final = heartbeat.final;
  unsaved_ = true;
}

void Coordinator::On(const ShardHeartbeat& heartbeat, absl::Time now, Effects& effects) {
  // Also in a heartbeat of a process that has registered with a newer record.
  if (const std::string trace = TraceIn(heartbeat); !trace.empty())
    return RefuseAll(trace, effects);
  if (absl::Status status = CheckHeartbeat(heartbeat); !status.ok()) {
    effects.push_back(Refused{std::move(status)});
    return;
  }
  const auto found = shards_.find(heartbeat.shard);
  if (found == shards_.end() || found->second.incarnation != heartbeat.incarnation) {
    // An unknown shard is told to stop.
    effects.push_back(ReplyTo(heartbeat));
    return;
  }
  Shard& shard = found->second;
  if (std::exchange(shard.silent, false)) {
    Note(effects, "shard ", heartbeat.shard, " is heard again after ",
         FormatSeconds(now - shard.heard));
  }
  // A process that fails may be followed by one that works, so the failure is trouble until then.
  const std::string& trouble = heartbeat.failure.empty() ? heartbeat.trouble : heartbeat.failure;
  if (shard.trouble != trouble) {
    Note(effects, "shard ", heartbeat.shard, ": ",
         trouble.empty() ? "takes pushes again" : trouble);
  }
  if (shard.complaint.empty() && !heartbeat.complaint.empty()) {
    Note(effects, "shard ", heartbeat.shard, ": ", heartbeat.complaint);
  }
  shard.heard = now;
  const uint64_t log_records = std::max(shard.state.log_records, heartbeat.state.log_records);
  shard.state = heartbeat.state;
  shard.state.log_records = log_records;
  shard.known_epoch = heartbeat.known_epoch;
  shard.trouble = trouble;
  shard.complaint = heartbeat.complaint;
  // Workers may have reported the rounds before the shards did.
  if (HearOfClosedRounds()) {
    FinishRounds(now, effects);
    FinishRunIfDone(now, effects);
  }
  if (is_over()) shard.told = true;
  ShardHeartbeatReply reply = ReplyTo(heartbeat);
  if (reply.membership && reply.membership->epoch > shard.told_epoch) {
    shard.told_epoch = reply.membership->epoch;
    unsaved_ = true;
  }
  effects.push_back(std::move(reply));
}

std::string Coordinator::NameOf(uint32_t worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? "" : found->second.member.name;
}

std::optional<uint32_t> Coordinator::IndexOf(const std::string& name) const {
  const Worker* const worker = FindWorker(name);
  return worker == nullptr ? std::nullopt : std::optional(worker->member.worker);
}

void Coordinator::On(const StopRequested& request, absl::Time now, Effects& effects) {
  if (!is_over()) End(RunPhase::kStopped, request.reason, now, effects);
}

void Coordinator::On(const Tick&, absl::Time now, Effects& effects) {
  ForgiveOwnPause(now);
  if (phase_ == RunPhase::kWaiting) {
    DropSilentBeforeStart(now, effects);
    if (now - *first_step_ <= options_.start_timeout) return;
    End(RunPhase::kFailed,
        absl::StrCat("the run did not start within ", FormatSeconds(options_.start_timeout), ": ",
                     WhoIsRegistered()),
        now, effects);
  } else if (phase_ == RunPhase::kTraining) {
    WatchShards(now, effects);
    if (phase_ == RunPhase::kTraining) LoseSilentWorkers(now, effects);
    if (phase_ == RunPhase::kTraining) WatchPatience(now, effects);
  }
}

bool Coordinator::EveryoneToldOfTheEnd() const {
  return is_over() &&
         std::ranges::all_of(
             workers_, [](const auto& entry) { return entry.second.lost || entry.second.told; }) &&
         std::ranges::all_of(shards_, [](const auto& entry) { return entry.second.told; });
}

void Coordinator::NoteUnsent() {
  for (auto& [index, worker] : workers_) worker.told = false;
  for (auto& [index, shard] : shards_) shard.told = false;
}

const Coordinator::Worker* Coordinator::FindWorker(const std::string& name) const {
  for (const auto& [index, worker] : workers_) {
    if (worker.member.name == name) return &worker;
  }
  return nullptr;
}

Coordinator::Worker* Coordinator::FindWorker(const std::string& name) {
  return const_cast<Worker*>(std::as_const(*this).FindWorker(name));
}

}  // namespace longwave
