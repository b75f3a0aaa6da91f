// Its rounds: signals, pushes, what becomes of them, and what is held against the rules.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_worker.h"

namespace longwave::sim {
namespace {

// A signal's largest number, in units.
constexpr uint64_t kSignalMax = 8;

}  // namespace

void SimWorker::NextRound() {
  if (round_ >= env_.settings->rounds) return Conclude();
  SetReadyRound(round_);
  fragment_ = 0;
  Compute();
}

// The steps before the signal of the next fragment.
void SimWorker::Compute() {
  stage_ = Stage::kComputing;
  absl::Duration time = env_.settings->round_computation[place_] * (0.9 + 0.2 * rng_.Uniform());
  time /= env_.settings->fragments;
  if (scheduler_->now() < slow_until_) time *= slowness_;
  After(time, [this] { Send(); });
}

void SimWorker::Send() {
  stage_ = Stage::kSyncing;
  if (const absl::Status begun = pipeline_->BeginFragment(round_, fragment_, 1); !begun.ok())
    return Die(begun, "begins a fragment");
  std::vector<SegmentPush> pushes;
  std::vector<float> signal(kSegmentElements);
  const float* const anchor = pipeline_->anchor();
  const uint32_t fragments = pipeline_->fragment_count();
  for (uint32_t s = fragment_; s < env_.layout->segments().size(); s += fragments) {
    const size_t begin = size_t{s} * kSegmentElements;
    for (size_t e = 0; e < kSegmentElements; ++e) {
      const auto drawn =
          static_cast<int64_t>(rng_.Below(2 * kSignalMax + 1)) - static_cast<int64_t>(kSignalMax);
      theta_[begin + e] =
          anchor[begin + e] - static_cast<float>(drawn * int64_t{env_.settings->unit});
      signal[e] = anchor[begin + e] - theta_[begin + e];
    }
    auto push = pipeline_->Encode(s);
    if (!push.ok()) return Die(push.status(), "encodes");
    env_.checker->Encoded(worker_, &account_, round_, s, signal, push->payload);
    pushes.push_back({.epoch = membership_.epoch,
                      .round = round_,
                      .segment = s,
                      .payload = std::move(push->payload),
                      .norm = push->norm,
                      .weight = 1,
                      .accounted = push->accounted});
  }
  env_.trace->Tell(
      [&] { return absl::StrCat(name(), " pushes round ", round_, ", fragment ", fragment_); });
  if (folder_ != nullptr && !WriteCheckpoint(pushes)) return;
  Post(std::move(pushes));
}

bool SimWorker::WriteCheckpoint(const std::vector<SegmentPush>& pushes) {
  auto momentum = pipeline_->ExportMomentum();
  if (!momentum.ok()) {
    Die(momentum.status(), "gives its residual");
    return false;
  }
  Checkpoint checkpoint;
  checkpoint.run = run_;
  checkpoint.layout_hash = env_.layout->hash();
  checkpoint.name = name();
  checkpoint.worker = worker_;
  checkpoint.round = round_;
  checkpoint.fragment = fragment_;
  checkpoint.step = round_;
  checkpoint.m.resize(theta_.size());
  checkpoint.v.resize(theta_.size());
  checkpoint.momentum = *std::move(momentum);
  checkpoint.accounted = pipeline_->Accounted();
  for (const SegmentPush& push : pushes) {
    checkpoint.accounted[push.segment] = push.accounted;
    checkpoint.pushes.push_back({push.segment, push.norm, push.weight, push.payload});
  }
  if (const absl::Status written = folder_->Write(checkpoint); !written.ok()) {
    Die(written, "writes its checkpoint");
    return false;
  }
  kept_account_ = account_;
  return true;
}

// What an earlier process encoded, and may have posted.
void SimWorker::PostAgain() {
  env_.probes->Hit(Probe::kPushesPostedAgain);
  stage_ = Stage::kResuming;
  SetReadyRound(LowestRound());
  std::vector<SegmentPush> pushes;
  for (SegmentPush& push : posted_again_) {
    push.epoch = membership_.epoch;
    if (pipeline_->anchor_round(push.segment) >= push.round) {
      pushes.push_back(push);
      continue;
    }
    // A shard that stands before its round has never seen it.
    env_.checker->Settled(worker_, &account_, push.round, push.segment, Fate::kLate);
    if (const absl::Status restored =
            pipeline_->RestoreFrom(push.segment, push.round, push.payload);
        !restored.ok()) {
      return Die(restored, "takes a contribution back");
    }
  }
  if (pushes.empty()) return EndPosting();
  Post(std::move(pushes));
}

void SimWorker::Post(std::vector<SegmentPush> pushes) {
  if (env_.settings->canary == Canary::kUnaccountedResidual) {
    for (SegmentPush& push : pushes) push.accounted = 0;
  }
  missing_ = false;
  awaited_ = static_cast<uint32_t>(pushes.size());
  for (SegmentPush& push : pushes) {
    if (const absl::Status posted = ledger_->Post(std::move(push), now()); !posted.ok())
      return Die(posted, "posts");
  }
  Pump();
}

void SimWorker::TakeSettled(const Settled& settled) {
  const uint32_t s = settled.segment;
  const bool syncs = stage_ == Stage::kSyncing;
  if ((!syncs && stage_ != Stage::kFilling && stage_ != Stage::kResuming) || awaited_ == 0) {
    return env_.checker->Violate(absl::StrCat(name(), " settles round ", settled.round,
                                              ", segment ", s, ", of which nothing is posted"));
  }
  env_.trace->Tell([&] {
    constexpr const char* kFates[] = {"accepted", "late", "unknown"};
    return absl::StrCat(name(), " settles round ", settled.round, ", segment ", s, ": ",
                        kFates[static_cast<int>(settled.fate)], settled.gone ? ", gone" : "");
  });
  env_.checker->Settled(worker_, &account_, settled.round, s, settled.fate);
  if (settled.fate == Fate::kLate) env_.probes->Hit(Probe::kSettledLate);
  if (settled.gone) env_.probes->Hit(Probe::kSettledGone);
  absl::Status status = TakeBack(settled);
  if (status.ok() && syncs && !settled.gone) {
    status = pipeline_->Apply(s, settled.merged);
  } else if (status.ok() && !settled.gone && pipeline_->anchor_round(s) == settled.round) {
    status = pipeline_->CatchUp(s, settled.round, 1, settled.merged);
  }
  if (!status.ok()) return Die(status, "settles a contribution");
  if (settled.gone) missing_ = true;
  if (--awaited_ == 0) EndPosting();
}

// What was not accepted goes back into the residual.
absl::Status SimWorker::TakeBack(const Settled& settled) {
  const uint32_t s = settled.segment;
  const Canary canary = env_.settings->canary;
  if (settled.fate == Fate::kUnknown && stage_ == Stage::kResuming) {
    // The residual may tell of what others have already.
    const auto begin = static_cast<std::ptrdiff_t>(size_t{s} * kSegmentElements);
    std::fill_n(account_.owed.begin() + begin, kSegmentElements, 0.0);
    return pipeline_->DropResidual(s);
  }
  const bool takes_back = (settled.fate == Fate::kLate && canary != Canary::kKeptLatePush) ||
                          (settled.fate == Fate::kAccepted && canary == Canary::kRestoredAccepted);
  if (!takes_back) return absl::OkStatus();
  if (stage_ != Stage::kResuming) return pipeline_->Restore(s);
  const auto push = std::ranges::find(posted_again_, s, &SegmentPush::segment);
  return pipeline_->RestoreFrom(s, settled.round, push->payload);
}

// Everything that was posted is settled.
void SimWorker::EndPosting() {
  if (stage_ == Stage::kSyncing) return EndSync();
  posted_again_.clear();
  if (const absl::Status adopted = pipeline_->AdoptAnchor(); !adopted.ok())
    return Die(adopted, "takes its anchor");
  CheckReplica();
  if (stage_ == Stage::kFilling && ++fragment_ < pipeline_->fragment_count()) return FillFragment();
  BeginToFollow();
}

void SimWorker::EndSync() {
  if (std::exchange(missing_, false)) {
    env_.probes->Hit(Probe::kWorkerFellBehind);
    return Join();
  }
  if (const absl::Status ended = pipeline_->EndFragment(); !ended.ok())
    return Die(ended, "ends a fragment");
  CheckReplica();
  CheckResidual();
  if (++fragment_ < pipeline_->fragment_count()) return Compute();
  EndRound();
  if (!Repair()) GoOn();
}

// With the rounds before round_, after whatever came between.
void SimWorker::GoOn() {
  if (!IsBehind(round_)) return NextRound();
  env_.probes->Hit(Probe::kWorkerFellBehind);
  Join();
}

void SimWorker::EndRound() {
  const auto hashes = pipeline_->Hashes();
  if (!hashes.ok()) return Die(hashes.status(), "hashes its replica");
  RoundReport report;
  report.round = round_;
  report.step = round_ + 1;
  report.train_loss = 1;
  report.segment_hashes = *hashes;
  report.tokens = round_ + 1;
  unanswered_.push_back(std::move(report));
  reported_ = ++round_;
  BeatNow();
}

// Whether segments are fetched anew before the next round.
bool SimWorker::Repair() {
  if (!repair_.has_value() || env_.settings->canary == Canary::kIgnoredRepair) return false;
  std::vector<uint32_t> segments;
  for (const uint32_t s : repair_->segments) {
    if (repair_->round >= repaired_before_[s]) segments.push_back(s);
  }
  if (segments.empty()) return false;
  env_.trace->Tell([&] { return absl::StrCat(name(), " repairs its replica"); });
  stage_ = Stage::kRepairing;
  heard_.assign(env_.layout->segments().size(), true);
  for (const uint32_t s : segments) {
    if (const absl::Status wanted = ledger_->Fetch(s, 0, round_, now()); !wanted.ok()) {
      Die(wanted, "repairs its replica");
      return true;
    }
    repaired_before_[s] = round_;
    anew_.insert(s);
    heard_[s] = false;
  }
  return true;
}

void SimWorker::Repaired() {
  env_.probes->Hit(Probe::kReplicaRepaired);
  anew_.clear();
  CheckReplica();
  if (const absl::Status adopted = pipeline_->AdoptAnchor(); !adopted.ok())
    return Die(adopted, "takes its repaired anchor");
  GoOn();
}

bool SimWorker::IsToldToRepairLast() const {
  return repair_.has_value() && repair_->round + 1 == env_.settings->rounds;
}

void SimWorker::ReportLastAgain() {
  const auto hashes = pipeline_->Hashes();
  if (!hashes.ok()) return Die(hashes.status(), "hashes its repaired replica");
  RoundReport report;
  report.round = env_.settings->rounds - 1;
  report.step = env_.settings->rounds;
  report.again = true;
  report.train_loss = 1;
  report.segment_hashes = *hashes;
  unanswered_.push_back(std::move(report));
  env_.probes->Hit(repair_->segments.empty() ? Probe::kEndReportWanted : Probe::kLastRoundRepaired);
}

// As Trainer::ReportEndIfCaughtUp.
void SimWorker::ReportEndIfCaughtUp() {
  const uint32_t rounds = env_.settings->rounds;
  if (reported_ == rounds) return;
  const auto hashes = pipeline_->Hashes();
  if (!hashes.ok()) return Die(hashes.status(), "hashes the replica that it has caught up with");
  RoundReport report;
  report.round = rounds - 1;
  report.step = rounds;
  report.caught_up = true;
  report.segment_hashes = *hashes;
  report.tokens = rounds;
  unanswered_.push_back(std::move(report));
  reported_ = rounds;
}

void SimWorker::Conclude() {
  stage_ = Stage::kDone;
  final_.reset();
  ReportEndIfCaughtUp();
  if (IsToldToRepairLast()) {
    if (Repair()) return Pump();
    ReportLastAgain();
  }
  final_ = FinalReport{.validation_loss = {}, .model_file = validates_ ? "model" : ""};
  BeatNow();
}

std::span<const float> SimWorker::AnchorOf(uint32_t segment) const {
  return {pipeline_->anchor() + size_t{segment} * kSegmentElements, kSegmentElements};
}

void SimWorker::CheckReplica() {
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s) {
    if (damaged_.contains(s)) continue;
    env_.checker->HoldsReplica(worker_, s, pipeline_->anchor_round(s), AnchorOf(s));
  }
}

void SimWorker::CheckEnd() const {
  if (!up() || stage_ != Stage::kDone) return;
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s)
    env_.checker->HoldsReplica(worker_, s, pipeline_->anchor_round(s), AnchorOf(s));
}

void SimWorker::CheckResidual() {
  env_.checker->HoldsResidual(worker_, account_,
                              {pipeline_->momentum(), env_.layout->coefficient_count()});
}

}  // namespace longwave::sim
