// SimWorker's core: its inputs and effects, and checks of the rules.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_worker.h"
#include "worker/sync/send_order.h"

namespace longwave::sim {
namespace {

// A signal's largest absolute value, in units.
constexpr uint64_t kSignalMax = 8;
// All contributions have the same weight, so that means are whole numbers.
constexpr uint64_t kWeight = 1;

}  // namespace

WorkerCoreOptions SimWorker::CoreOptions() const {
  const uint32_t fragments = pipeline_->fragment_count();
  const uint32_t steps = fragments * env_.settings->steps;
  return {
      .layout = env_.layout,
      .pipeline = pipeline_.get(),
      .plan = SyncPlan(steps, fragments, /*overlap=*/0, uint64_t{steps} * env_.settings->rounds),
      .order = SendOrder(*env_.layout, worker_),
      .checkpoint_every =
          folder_ == nullptr ? std::nullopt : std::make_optional(env_.settings->checkpoint_rounds),
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
  ledger_ = std::make_unique<WorkerLedger>(options);
  core_ = std::make_unique<WorkerCore>(CoreOptions());
  core_->Hear(DirectiveNow());
  std::optional<WorkerFolder::Found> found = ReadCheckpoint();
  const bool is_new = !found.has_value();
  std::optional<Checkpoint> checkpoint;
  if (found.has_value() && !found->stale) {
    env_.probes->Hit(Probe::kWorkerReturned);
    account_ = kept_account_;
    checkpoint = std::move(found->checkpoint);
    if (env_.settings->canary == Canary::kForgottenPush) checkpoint->pushes.clear();
    resumed_ = checkpoint->pushes;
    resumed_round_ = checkpoint->round;
  } else if (!is_new || session_->directive().first_round != 0) {
    env_.probes->Hit(Probe::kWorkerJoinedLate);
  }
  if (DirectiveNow().other_start) env_.probes->Hit(Probe::kOtherStart);
  if (const absl::Status begun = core_->Begin(is_new, std::move(checkpoint)); !begun.ok())
    Die(begun, "begins");
}

std::optional<WorkerFolder::Found> SimWorker::ReadCheckpoint() {
  if (folder_ == nullptr) return std::nullopt;
  auto found = folder_->Read(session_->run(), name(), worker_, ShapeOf(*env_.layout));
  if (found.ok()) return *std::move(found);
  Die(found.status(), "reads its checkpoint");
  return std::nullopt;
}

Directive SimWorker::DirectiveNow() const {
  Directive directive = session_->directive();
  if (env_.settings->canary == Canary::kIgnoredRepair) directive.repair.reset();
  if (env_.settings->canary == Canary::kOwnStart) directive.other_start = false;
  return directive;
}

// Passes received results to the core. False: there were none.
bool SimWorker::Feed() {
  bool fed = false;
  for (Settled& settled : ledger_->TakeSettled()) {
    env_.trace->Tell([&] {
      constexpr const char* kFates[] = {"accepted", "late", "unknown"};
      return absl::StrCat(name(), " settles round ", settled.round, ", segment ", settled.segment,
                          ": ", kFates[static_cast<int>(settled.fate)],
                          settled.compacted ? ", compacted" : "");
    });
    NoteSettled(settled.round, settled.segment, settled.fate);
    if (settled.compacted) env_.probes->Hit(Probe::kSettledCompacted);
    core_->On(Disturbed(std::move(settled)));
    CheckCore();
    fed = true;
  }
  // A worker that trains ignores the results of an earlier fetch.
  while (core_->takes_fetched()) {
    std::optional<FetchEvent> event = ledger_->TakeFetched();
    if (!event.has_value()) break;
    TakeFetched(*std::move(event));
    CheckCore();
    fed = true;
  }
  while (const std::optional<SnapshotRequest> request = ledger_->TakeRequest()) core_->On(*request);
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

void SimWorker::TakeFetched(FetchEvent event) {
  auto* const fetched = std::get_if<Fetched>(&event);
  if (fetched == nullptr) {
    if (const absl::Status taken = core_->On(event); !taken.ok()) Die(taken, "cannot catch up");
    return;
  }
  const uint32_t s = fetched->segment;
  const uint32_t here = pipeline_->anchor_round(s);
  const bool anew = core_->IsFetchedAnew(s);
  if (!fetched->is_snapshot && fetched->round == (anew ? 0 : here)) {
    env_.probes->Hit(Probe::kFetchByLog);
    Buffer before = std::exchange(merged_before_[s], fetched->payload);
    // Repeats the update before in place of this one.
    if (env_.settings->canary == Canary::kSkippedUpdate && !before.empty())
      fetched->payload = std::move(before);
  }
  if (const absl::Status taken = core_->On(event); !taken.ok())
    return Die(taken, "takes what it fetched");
  if (anew ? !core_->IsFetchedAnew(s) : fetched->is_snapshot && fetched->round > here)
    damaged_.erase(s);
  CheckReplica();
}

// Handles all inputs and outputs.
void SimWorker::Pump() {
  if (core_ == nullptr || stopped_) return;
  // Handlers may call Pump again; the outermost call does all the work.
  if (pumping_) return;
  pumping_ = true;
  do {
    Feed();
  } while (env_.checker->violation().empty() && Advance());
  ServeRequests();
  if (!ledger_->failure().ok()) {
    pumping_ = false;
    // A worker whose push was replaced by an accepted poisoned push also ends here.
    if (is_from_backup_ || env_.checker->IsPoisoner(worker_)) return SetFolderAside();
    Die(ledger_->failure(), "is refused");
  }
  SendDue();
  pumping_ = false;
}

// False: no work is left for now.
bool SimWorker::Advance() {
  core_->Hear(DirectiveNow());
  core_->HearOpenRound(ledger_->newest_open_round());
  if (ends_ && !computing_) core_->Stop();
  const Stage before = stage();
  const auto wish = core_->Advance(now());
  if (!wish.ok()) {
    Die(wish.status(), "goes on");
    return false;
  }
  CheckCore();
  if (stage() != before) OnStageChange(before);
  for (CoreEffect& effect : core_->TakeEffects()) {
    const absl::Status done = std::visit([this](auto& each) { return Do(each); }, effect);
    if (done.ok()) continue;
    Die(done, "carries out what it decided");
    return false;
  }
  session_->SetReadyRound(core_->ready_round());
  CallCoordinator();
  if (*wish == WorkerCore::Wish::kEnd) After(absl::ZeroDuration(), [this] { End(); });
  if (*wish == WorkerCore::Wish::kTrain && !computing_) Compute();
  if (*wish == WorkerCore::Wish::kWait) WakeAt(core_->wakes_at());
  return *wish == WorkerCore::Wish::kGoOn;
}

void SimWorker::OnStageChange(Stage before) {
  env_.trace->Tell([&] { return absl::StrCat(name(), " is ", WorkerCore::Name(stage())); });
  const bool falls_behind = before == Stage::kSyncing || before == Stage::kBetweenRounds;
  if (stage() == Stage::kHearing && falls_behind) env_.probes->Hit(Probe::kWorkerFellBehind);
  if (stage() == Stage::kResuming) {
    env_.probes->Hit(Probe::kPushesPostedAgain);
    // A shard whose open round is earlier has never seen the push.
    for (const UnsettledPush& push : std::exchange(resumed_, {})) {
      if (pipeline_->anchor_round(push.segment) < resumed_round_)
        NoteSettled(resumed_round_, push.segment, Fate::kLate);
    }
  }
  if (before == Stage::kFollowing && core_->fills() && stage() == Stage::kEncoding)
    env_.probes->Hit(Probe::kRoundFilled);
  if (before == Stage::kFilling && stage() == Stage::kFollowing &&
      env_.settings->crashes_after_fill[place_] && !std::exchange(crashed_after_fill_, true)) {
    After(absl::ZeroDuration(), [this] { CrashAndReturn(); });
  }
  if (before == Stage::kRepairing) env_.probes->Hit(Probe::kReplicaRepaired);
  if (before == Stage::kRepairing || stage() == Stage::kFollowing) CheckReplica();
  if (stage() == Stage::kFollowing) CheckResidual();
}

absl::Status SimWorker::Do(RetireCheckpoint&) { return folder_->Retire(); }

absl::Status SimWorker::Do(KeepCheckpoint& keep) {
  if (keep.is_last) {
    env_.probes->Hit(keep.pushes.empty() ? Probe::kKeptBetweenSteps : Probe::kKeptInFlight);
    if (env_.settings->canary == Canary::kForgottenFlight) keep.pushes.clear();
  }
  for (SegmentPush& push : keep.pushes) {
    push.weight = kWeight;
    if (keep.is_last) continue;  // noted when it was posted
    NoteEncoded(push);
    kept_.insert(push.segment);
  }
  if (env_.settings->canary == Canary::kUnkeptFill && core_->fills()) return absl::OkStatus();
  Checkpoint checkpoint{.run = session_->run(),
                        .layout_hash = env_.layout->hash(),
                        .name = name(),
                        .worker = worker_,
                        .round = keep.round,
                        .fragment = keep.fragment,
                        .step = core_->step()};
  checkpoint.accounted = pipeline_->Accounted();
  std::vector<uint32_t> unsettled;
  for (const SegmentPush& push : keep.pushes) {
    unsettled.push_back(push.segment);
    checkpoint.accounted[push.segment] = push.accounted;
    checkpoint.pushes.push_back({push.segment, push.norm, push.weight, push.payload});
  }
  auto momentum = pipeline_->ExportMomentum(unsettled);
  if (!momentum.ok()) return momentum.status();
  checkpoint.momentum = *std::move(momentum);
  std::ranges::sort(checkpoint.pushes, {}, &UnsettledPush::segment);
  kept_account_ = account_;
  return folder_->Write(checkpoint);
}

absl::Status SimWorker::Do(SegmentPush& push) {
  const bool was_seen = push.sent_before || kept_.erase(push.segment) > 0;
  if (!was_seen) NoteEncoded(push);
  push.weight = kWeight;
  if (env_.settings->canary == Canary::kUnaccountedResidual) push.accounted = 0;
  return ledger_->Post(std::move(push), now());
}

absl::Status SimWorker::Do(FetchWish& wish) {
  return ledger_->Fetch(wish.segment, wish.from_round, wish.until_round, now());
}

absl::Status SimWorker::Do(FragmentApplied&) {
  CheckReplica();
  CheckResidual();
  return absl::OkStatus();
}

absl::Status SimWorker::Do(RoundReport& report) {
  if (report.round > env_.settings->rounds) {
    env_.probes->Hit(session_->directive().repair.has_value() ? Probe::kSealingRepaired
                                                              : Probe::kSealedAgain);
  }
  session_->Report(std::move(report));
  return absl::OkStatus();
}

absl::Status SimWorker::Do(TellFinal& final) {
  if (final.writes_weights && session_->has_final()) env_.probes->Hit(Probe::kDutyCameLate);
  session_->Finish({.validation_loss = {}, .model_file = final.writes_weights ? "model" : ""});
  return absl::OkStatus();
}

absl::Status SimWorker::Do(CoreNotice& notice) {
  env_.trace->Tell([&] { return absl::StrCat(name(), ": ", notice.text); });
  return absl::OkStatus();
}

void SimWorker::NoteEncoded(const SegmentPush& push) {
  static const std::vector<float> nothing(kSegmentElements);
  std::span<const float> signal = nothing;
  if (!core_->fills())
    signal = {signal_.data() + size_t{push.segment} * kSegmentElements, kSegmentElements};
  env_.checker->Encoded(worker_, &account_, push.round, push.segment, signal, push.payload);
}

// A step, which takes simulated time.
void SimWorker::Compute() {
  computing_ = true;
  absl::Duration time = env_.settings->round_computation[place_] * (0.9 + 0.2 * rng_.Uniform());
  time /= env_.settings->fragments * env_.settings->steps;
  if (scheduler_->now() < slow_until_) time *= slowness_;
  After(time, [this] { EndStep(); });
}

void SimWorker::EndStep() {
  computing_ = false;
  core_->StepDone(1, 1);
  const SyncPlan plan = CoreOptions().plan;
  const float* const anchor = pipeline_->anchor();
  const uint32_t fragments = plan.fragment_count();
  for (uint32_t f = core_->fragment(); f < fragments; ++f) {
    if (plan.At(core_->round(), f).signal_step != core_->step()) continue;
    for (uint32_t s = f; s < env_.layout->segments().size(); s += fragments) {
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
  return {pipeline_->anchor() + size_t{segment} * kSegmentElements, kSegmentElements};
}

void SimWorker::CheckCore() {
  if (const absl::Status holds = core_->CheckInvariants(); !holds.ok()) Die(holds, "breaks a rule");
}

void SimWorker::CheckReplica() {
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    if (damaged_.contains(s) || core_->IsFetchedAnew(s)) continue;
    env_.checker->HoldsReplica(worker_, s, pipeline_->anchor_round(s), AnchorOf(s));
  }
}

void SimWorker::CheckEnd() const {
  // A member that had all rounds too late for the seal was not compared.
  if (!up() || core_ == nullptr || !session_->has_final()) return;
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s)
    env_.checker->HoldsReplica(worker_, s, pipeline_->anchor_round(s), AnchorOf(s));
}

void SimWorker::CheckResidual() {
  env_.checker->HoldsResidual(worker_, account_,
                              {pipeline_->momentum(), env_.layout->coefficient_count()});
}

}  // namespace longwave::sim
