// SimWorker's core: its inputs and effects, and checks of the rules.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_worker.h"
#include "worker/checkpoint/checkpoint_parts.h"
#include "worker/checkpoint/recovery.h"
#include "worker/sync/send_order.h"

namespace longwave::sim {
namespace {

// A signal's largest absolute value, in units.
constexpr uint64_t kSignalMax = 8;
// All contributions have the same weight, so that means are whole numbers.
constexpr uint64_t kWeight = 1;

}  // namespace

const SimWorker::Rank& SimWorker::OwnerOf(uint32_t segment) const {
  return *std::ranges::find_if(ranks_,
                               [&](const Rank& rank) { return rank.owned.Contains(segment); });
}

WorkerCoreOptions SimWorker::CoreOptions(const Rank& rank) const {
  return {.layout = env_.layout,
          .pipeline = rank.pipeline.get(),
          .plan = SyncPlan(env_.settings->MakeRoundPlan(), rank.pipeline->fragment_count(),
                           /*overlap=*/0),
          .order = SendOrder(*env_.layout, worker_),
          .checkpoint_every = folder_ == nullptr
                                  ? std::nullopt
                                  : std::make_optional(env_.settings->checkpoint_rounds),
          .has_journal = HasJournal(),
          .learning_rate = [](uint64_t) { return 1.0; },
          .initial_weights = [this]() -> absl::StatusOr<std::vector<float>> {
            return std::vector<float>(env_.layout->parameter_count(), start());
          },
          .clear_gradient = nullptr};
}

void SimWorker::BeginWithShards() {
  LedgerOptions options;
  options.run = session_->run();
  options.worker = worker_;
  for (const Segment& segment : env_.layout->segments()) {
    options.connections.push_back(segment.shard);
    options.snapshot_bytes.push_back(4 * kSegmentElements);
  }
  options.connection_count = static_cast<uint32_t>(shards_.size());
  options.connection_number = static_cast<uint32_t>(generation() << 16);
  if (HasJournal()) BeginJournal(folder_->journal());
  std::vector<std::optional<FoundCheckpoint>> found = ReadCheckpoint();
  const bool is_new = !found[0].has_value();
  const bool resumes = !is_new && !found[0]->stale;
  if (resumes) {
    env_.probes->Hit(Probe::kWorkerReturned);
    if (found[0]->checkpoint.blobs.size() != ranks_.size())
      env_.probes->Hit(Probe::kNodeChangedRanks);
    if (env_.settings->canary == Canary::kForgottenPush) {
      for (auto& each : found) each->checkpoint.pushes.clear();
    }
    resumed_ = found[0]->checkpoint.pushes;
    resumed_round_ = found[0]->checkpoint.round;
  } else if (!is_new || session_->directive().first_round != 0) {
    env_.probes->Hit(Probe::kWorkerJoinedLate);
  }
  if (DirectiveNow().other_start) env_.probes->Hit(Probe::kOtherStart);
  for (size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    options.node = NodeOf(r);
    options.owned = rank.owned;
    rank.ledger = std::make_unique<WorkerLedger>(options);
    rank.core = std::make_unique<WorkerCore>(CoreOptions(rank));
    rank.core->Hear(DirectiveNow());
    std::optional<Checkpoint> checkpoint;
    if (resumes) checkpoint = std::move(found[r]->checkpoint);
    if (const absl::Status begun = rank.core->Begin(is_new, std::move(checkpoint)); !begun.ok())
      Die(begun, "begins");
  }
}

std::vector<std::optional<FoundCheckpoint>> SimWorker::ReadCheckpoint() {
  std::vector<std::optional<FoundCheckpoint>> by_rank(ranks_.size());
  for (size_t r = 0; r < ranks_.size() && folder_ != nullptr; ++r) {
    const auto read = [&](NodeRank node) {
      return ReadPartOfLast(*disk_, folder_->path(), session_->run(), name(), worker_, *env_.layout,
                            node);
    };
    // The account is of the whole, before the journal.
    if (r == 0) {
      const auto whole = read(NodeRank{});
      if (whole.ok() && whole->has_value() && !(*whole)->stale) RecoverAccount(**whole);
    }
    auto found = read(NodeOf(r));
    if (found.ok() && env_.settings->canary != Canary::kUnreadJournal) {
      found = Recover(*disk_, folder_->path(), session_->run(), name(), worker_, *env_.layout,
                      NodeOf(r), env_.settings->MakeSyncOptions());
    }
    if (!found.ok()) {
      Die(found.status(), "reads its checkpoint");
      return std::vector<std::optional<FoundCheckpoint>>(ranks_.size());
    }
    by_rank[r] = *std::move(found);
  }
  return by_rank;
}

Directive SimWorker::DirectiveNow() const {
  Directive directive = session_->directive();
  if (env_.settings->canary == Canary::kIgnoredRepair) directive.repair.reset();
  if (env_.settings->canary == Canary::kOwnStart) directive.other_start = false;
  if (env_.settings->canary == Canary::kOwnInterval && place_ == 0) {
    for (RoundInterval& change : directive.intervals.changes)
      change.inner_steps += env_.settings->fragments;
  }
  return directive;
}

// Passes received results to the core. False: there were none.
bool SimWorker::Feed() {
  bool fed = false;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    while (const std::optional<Settled> settled = ranks_[r].ledger->TakeSettled()) {
      env_.trace->Print([&] {
        constexpr const char* kFates[] = {"accepted", "late", "unknown"};
        return absl::StrCat(name(), " settles round ", settled->round, ", segment ",
                            settled->segment, ": ", kFates[static_cast<int>(settled->fate)],
                            settled->compacted ? ", compacted" : "");
      });
      NoteSettled(settled->round, settled->segment, settled->fate);
      if (settled->compacted) env_.probes->Hit(Probe::kSettledCompacted);
      for (size_t each = 0; each < ranks_.size(); ++each) {
        Settled told = Disturbed(*settled);
        if (each != r) told.merged = Buffer();
        ranks_[each].core->On(std::move(told));
      }
      CheckCore();
      fed = true;
    }
    // A worker that trains ignores the results of an earlier fetch.
    while (core().takes_fetched()) {
      std::optional<FetchEvent> event = ranks_[r].ledger->TakeFetched();
      if (!event.has_value()) break;
      OnFetched(*std::move(event), r);
      CheckCore();
      fed = true;
    }
    while (const std::optional<SnapshotRequest> request = ranks_[r].ledger->TakeRequest())
      ranks_[r].core->On(*request);
  }
  return fed;
}

void SimWorker::NoteSettled(uint32_t round, uint32_t segment, Fate fate) {
  env_.checker->Settled(worker_, &account_, round, segment, fate);
  if (fate == Fate::kLate) env_.probes->Hit(Probe::kSettledLate);
  if (fate != Fate::kUnknown || stage() != Stage::kResuming) return;
  // The residual may contain accepted contributions, and is dropped.
  const auto begin = static_cast<std::ptrdiff_t>(size_t{segment} * kSegmentElements);
  std::fill_n(account_.owed.begin() + begin, kSegmentElements, 0.0);
}

Settled SimWorker::Disturbed(Settled settled) const {
  const Canary canary = env_.settings->canary;
  if (canary == Canary::kKeptLatePush && settled.fate == Fate::kLate)
    settled.fate = Fate::kAccepted;
  else if (canary == Canary::kRestoredAccepted && settled.fate == Fate::kAccepted)
    settled.fate = Fate::kLate;
  return settled;
}

void SimWorker::OnFetched(FetchEvent event, size_t rank) {
  const auto take = [&] {
    absl::Status taken;
    for (size_t each = 0; each < ranks_.size(); ++each) {
      FetchEvent told = event;
      if (each != rank) told.payload = Buffer();
      taken.Update(ranks_[each].core->On(told));
    }
    return taken;
  };
  const bool is_snapshot = event.kind == FetchEvent::Kind::kSnapshot;
  if (!is_snapshot && event.kind != FetchEvent::Kind::kUpdate) {
    if (const absl::Status taken = take(); !taken.ok()) Die(taken, "cannot catch up");
    return;
  }
  const uint32_t s = event.segment;
  const uint32_t here = anchor_round(s);
  const bool anew = core().IsFetchedAnew(s);
  if (!is_snapshot && event.round == (anew ? 0 : here)) {
    env_.probes->Hit(Probe::kFetchByLog);
    Buffer before = std::exchange(merged_before_[s], event.payload);
    // Repeats the update before in place of this one.
    if (env_.settings->canary == Canary::kSkippedUpdate && !before.empty())
      event.payload = std::move(before);
  }
  if (const absl::Status taken = take(); !taken.ok()) return Die(taken, "takes what it fetched");
  if (anew ? !core().IsFetchedAnew(s) : is_snapshot && event.round > here) damaged_.erase(s);
  CheckReplica();
}

// Handles all inputs and outputs.
void SimWorker::Pump() {
  if (!has_core() || stopped_) return;
  // Handlers may call Pump again; the outermost call does all the work.
  if (pumping_) return;
  pumping_ = true;
  do {
    Feed();
  } while (env_.checker->violation().empty() && Advance());
  ServeRequests();
  for (const Rank& rank : ranks_) {
    const absl::Status& failure = rank.ledger->failure();
    if (failure.ok()) continue;
    pumping_ = false;
    // A worker whose push was replaced by an accepted poisoned push also ends here.
    if (is_from_backup_ || env_.checker->IsPoisoner(worker_)) return SetFolderAside();
    Die(failure, "is refused");
  }
  SendDue();
  pumping_ = false;
}

// False: no work is left for now.
bool SimWorker::Advance() {
  const Stage before = stage();
  const auto wish = AdvanceAll();
  if (!wish.ok()) {
    Die(wish.status(), "goes on");
    return false;
  }
  CheckCore();
  if (stage() != before) OnStageChange(before);
  if (const absl::Status done = CarryOut(); !done.ok()) {
    if (!absl::IsAborted(done)) Die(done, "carries out what it decided");
    return false;
  }
  session_->SetReadyRound(core().ready_round());
  CallCoordinator();
  if (*wish == WorkerCore::Wish::kEnd) After(absl::ZeroDuration(), [this] { End(); });
  if (*wish == WorkerCore::Wish::kTrain && !computing_) Compute();
  if (*wish == WorkerCore::Wish::kWait && stage() == Stage::kBetweenRounds)
    env_.probes->Hit(Probe::kIntervalAwaited);
  if (*wish == WorkerCore::Wish::kWait) WakeAt(core().wakes_at(), [this] { Pump(); });
  return *wish == WorkerCore::Wish::kGoOn;
}

absl::StatusOr<WorkerCore::Wish> SimWorker::AdvanceAll() {
  uint32_t newest_open_round = 0;
  for (const Rank& rank : ranks_)
    newest_open_round = std::max(newest_open_round, rank.ledger->newest_open_round());
  std::optional<WorkerCore::Wish> wish;
  for (Rank& rank : ranks_) {
    rank.core->Hear(DirectiveNow());
    rank.core->HearOpenRound(newest_open_round);
    if (ends_ && !computing_) rank.core->Stop();
    const auto own = rank.core->Advance(now());
    if (!own.ok()) return own;
    if (wish.value_or(*own) != *own)
      return absl::InternalError("the ranks of the node do different things");
    wish = *own;
  }
  return *wish;
}

absl::Status SimWorker::CarryOut() {
  std::vector<std::vector<CoreEffect>> effects;
  for (Rank& rank : ranks_) effects.push_back(rank.core->TakeEffects());
  for (size_t i = 0; i < effects[0].size(); ++i) {
    for (size_t r = ranks_.size(); r-- > 0;) {
      if (effects[r].size() != effects[0].size() || effects[r][i].index() != effects[0][i].index())
        return absl::InternalError("the ranks of the node have different effects");
      const absl::Status done = std::visit([&](auto& each) { return Do(each, r); }, effects[r][i]);
      if (!done.ok()) return done;
    }
  }
  return absl::OkStatus();
}

void SimWorker::OnStageChange(Stage before) {
  const bool syncs = stage() == Stage::kSyncing || (stage() == Stage::kEncoding && !core().fills());
  if (syncs_since_.has_value() && !syncs)
    seconds_syncing_ += absl::ToDoubleSeconds(now() - *std::exchange(syncs_since_, std::nullopt));
  if (syncs && !syncs_since_.has_value() && env_.settings->interval.has_value())
    syncs_since_ = now();
  env_.trace->Print([&] { return absl::StrCat(name(), " is ", WorkerCore::Name(stage())); });
  const bool falls_behind = before == Stage::kSyncing || before == Stage::kBetweenRounds;
  if (stage() == Stage::kHearing && falls_behind) env_.probes->Hit(Probe::kWorkerFellBehind);
  if (stage() == Stage::kResuming) {
    env_.probes->Hit(Probe::kPushesPostedAgain);
    // A shard whose open round is earlier has never seen the push.
    for (const UnsettledPush& push : std::exchange(resumed_, {})) {
      if (anchor_round(push.segment) < resumed_round_)
        NoteSettled(resumed_round_, push.segment, Fate::kLate);
    }
  }
  if (before == Stage::kFollowing && core().fills() && stage() == Stage::kEncoding)
    env_.probes->Hit(Probe::kRoundFilled);
  if (before == Stage::kFilling && stage() == Stage::kFollowing &&
      env_.settings->crashes_after_fill[place_] && !std::exchange(crashed_after_fill_, true)) {
    After(absl::ZeroDuration(), [this] { CrashAndReturn(); });
  }
  if (before == Stage::kRepairing) env_.probes->Hit(Probe::kReplicaRepaired);
  if (before == Stage::kRepairing || stage() == Stage::kFollowing) CheckReplica();
  if (stage() == Stage::kFollowing) CheckResidual();
}

absl::Status SimWorker::Do(RetireCheckpoint&, size_t rank) {
  return rank == 0 ? folder_->Retire() : absl::OkStatus();
}

absl::Status SimWorker::Do(KeepCheckpoint& keep, size_t rank) {
  Checkpoint& checkpoint = keep.checkpoint;
  const bool is_copy = HasJournal() && !keep.is_last;
  if (keep.is_last && rank == 0) {
    env_.probes->Hit(checkpoint.pushes.empty() ? Probe::kKeptBetweenSteps : Probe::kKeptInFlight);
  }
  if (keep.is_last && env_.settings->canary == Canary::kForgottenFlight) checkpoint.pushes.clear();
  for (UnsettledPush& push : checkpoint.pushes) {
    push.weight = kWeight;
    // A last one's, or those of a copy, were noted when they were posted.
    if (keep.is_last || is_copy || !ranks_[rank].owned.Contains(push.segment)) continue;
    NoteEncoded(checkpoint.round, push.segment, push.payload);
    kept_.insert(push.segment);
  }
  if (env_.settings->canary == Canary::kUnkeptFill && core().fills()) return absl::OkStatus();
  checkpoint.run = session_->run();
  checkpoint.name = name();
  checkpoint.worker = worker_;
  checkpoint.node = NodeOf(rank);
  if (HasJournal()) checkpoint.write = folder_->NextWrite();
  if (is_copy) {
    WriteInBackground(std::move(checkpoint));
    return absl::OkStatus();
  }
  if (ranks_.size() > 1) {
    checkpoint.write = folder_->process() << 32 | (writes_ + 1);
    // By their number a later process notices that its ranks are others.
    checkpoint.blobs = {{.name = "rank", .bytes = Buffer()}};
    if (rank > 0) return WriteCheckpointPart(*disk_, folder_->path(), checkpoint);
    if (env_.settings->crashes_between_parts[place_] &&
        !std::exchange(crashed_between_parts_, true)) {
      env_.probes->Hit(Probe::kNodeCrashedBetweenParts);
      stopped_ = true;
      After(absl::ZeroDuration(), [this] { CrashAndReturn(); });
      return absl::AbortedError("crashes before rank 0 has written");
    }
  }
  ++writes_;
  kept_account_ = kept_before_ = account_;
  kept_write_ = checkpoint.write;
  return folder_->Write(checkpoint);
}

absl::Status SimWorker::Do(SegmentPush& push, size_t rank) {
  if (!ranks_[rank].owned.Contains(push.segment)) return absl::OkStatus();
  const bool was_seen = push.sent_before || kept_.erase(push.segment) > 0;
  if (!was_seen) NoteEncoded(push.round, push.segment, push.payload);
  push.weight = kWeight;
  if (env_.settings->canary == Canary::kUnaccountedResidual) push.accounted = 0;
  if (HasJournal() && !push.sent_before) {
    const absl::Status recorded = Record(push);
    if (!recorded.ok()) return recorded;
  }
  return ranks_[rank].ledger->Post(std::move(push), now());
}

absl::Status SimWorker::Do(SettledNote& note, size_t) {
  notes_.push_back({.kind = note.kind, .segment = note.segment, .round = note.round});
  return absl::OkStatus();
}

absl::Status SimWorker::Do(FetchWish& wish, size_t rank) {
  if (!ranks_[rank].owned.Contains(wish.segment)) return absl::OkStatus();
  return ranks_[rank].ledger->Fetch(wish.segment, wish.from_round, wish.until_round, now());
}

absl::Status SimWorker::Do(FragmentApplied&, size_t rank) {
  if (rank > 0) return absl::OkStatus();
  CheckReplica();
  CheckResidual();
  return absl::OkStatus();
}

absl::Status SimWorker::Do(RoundReport& report, size_t rank) {
  hashes_.insert(hashes_.begin(), report.segment_hashes.begin(), report.segment_hashes.end());
  if (rank > 0) return absl::OkStatus();
  report.segment_hashes = std::exchange(hashes_, {});
  if (env_.settings->interval.has_value()) {
    report.seconds_computing = seconds_computing_;
    report.seconds_syncing = seconds_syncing_;
  }
  if (report.round > core().plan().round_count()) {
    env_.probes->Hit(session_->directive().repair.has_value() ? Probe::kSealingRepaired
                                                              : Probe::kSealedAgain);
  }
  session_->Report(std::move(report));
  return absl::OkStatus();
}

absl::Status SimWorker::Do(TellFinal& final, size_t rank) {
  if (rank > 0) return absl::OkStatus();
  if (final.writes_weights && session_->has_final()) env_.probes->Hit(Probe::kDutyCameLate);
  session_->Finish({.validation_loss = {}, .model_file = final.writes_weights ? "model" : ""});
  return absl::OkStatus();
}

absl::Status SimWorker::Do(CoreNotice& notice, size_t rank) {
  if (rank > 0) return absl::OkStatus();
  env_.trace->Print([&] { return absl::StrCat(name(), ": ", notice.text); });
  return absl::OkStatus();
}

void SimWorker::NoteEncoded(uint32_t round, uint32_t segment, const Buffer& payload) {
  static const std::vector<float> nothing(kSegmentElements);
  std::span<const float> signal = nothing;
  if (!core().fills())
    signal = {signal_.data() + size_t{segment} * kSegmentElements, kSegmentElements};
  env_.checker->Encoded(worker_, &account_, round, segment, signal, payload);
}

// A step, which takes simulated time.
void SimWorker::Compute() {
  computing_ = true;
  absl::Duration time = env_.settings->round_computation[place_] * (0.9 + 0.2 * rng_.Uniform());
  time /= env_.settings->fragments * env_.settings->steps;
  if (scheduler_->now() < slow_until_) time *= slowness_;
  if (env_.settings->interval.has_value()) seconds_computing_ += absl::ToDoubleSeconds(time);
  After(time, [this] { EndStep(); });
}

void SimWorker::EndStep() {
  computing_ = false;
  for (Rank& rank : ranks_) rank.core->StepDone(1, 1);
  const SyncPlan& plan = core().plan();
  const uint32_t fragments = plan.fragment_count();
  for (uint32_t f = core().fragment(); f < fragments; ++f) {
    if (plan.At(core().round(), f).signal_step != core().step()) continue;
    env_.checker->Trained(worker_, plan.At(core().round(), f));
    for (uint32_t s = f; s < env_.layout->segments().size(); s += fragments) {
      const float* const anchor = OwnerOf(s).pipeline->anchor();
      for (size_t e = size_t{s} * kSegmentElements; e < size_t{s + 1} * kSegmentElements; ++e) {
        const auto drawn =
            static_cast<int64_t>(rng_.Below(2 * kSignalMax + 1)) - static_cast<int64_t>(kSignalMax);
        theta_[e] = anchor[e] - static_cast<float>(drawn * int64_t{env_.settings->unit});
        signal_[e] = anchor[e] - theta_[e];
      }
    }
  }
  Pump();
}

std::span<const float> SimWorker::AnchorOf(uint32_t segment) const {
  return {OwnerOf(segment).pipeline->anchor() + size_t{segment} * kSegmentElements,
          kSegmentElements};
}

void SimWorker::CheckCore() {
  for (const Rank& rank : ranks_) {
    if (const absl::Status holds = rank.core->CheckInvariants(); !holds.ok())
      Die(holds, "breaks a rule");
    bool is_alike = rank.core->stage() == core().stage() && rank.core->round() == core().round() &&
                    rank.core->fragment() == core().fragment() &&
                    rank.core->step() == core().step() && rank.core->awaited() == core().awaited();
    for (uint32_t s = 0; s < env_.layout->segments().size(); ++s)
      is_alike = is_alike && rank.pipeline->anchor_round(s) == anchor_round(s);
    if (!is_alike) Die(absl::InternalError("its ranks stand at different points"), "runs");
  }
}

void SimWorker::CheckReplica() {
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    if (damaged_.contains(s) || core().IsFetchedAnew(s)) continue;
    env_.checker->HoldsReplica(worker_, s, anchor_round(s), AnchorOf(s));
  }
}

void SimWorker::CheckEnd() const {
  // A member that had all rounds too late for the seal was not compared.
  if (!up() || !has_core() || !session_->has_final()) return;
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s)
    env_.checker->HoldsReplica(worker_, s, anchor_round(s), AnchorOf(s));
}

void SimWorker::CheckResidual() {
  std::vector<float> momentum;
  for (const Segment& segment : env_.layout->segments()) {
    const auto s = static_cast<uint32_t>(&segment - env_.layout->segments().data());
    const float* const from = OwnerOf(s).pipeline->momentum() + segment.coefficient_begin;
    momentum.insert(momentum.end(), from, from + segment.coefficient_count);
  }
  env_.checker->HoldsResidual(worker_, account_, momentum);
}

}  // namespace longwave::sim
