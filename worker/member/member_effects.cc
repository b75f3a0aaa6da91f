// The core's effects: what a member does for it.
#include <utility>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/member/crash_point.h"
#include "worker/member/member.h"

namespace longwave {

using Phase = WorkerMetrics::Phase;

absl::Status TrainingMember::CarryOut() {
  for (CoreEffect& effect : core_.TakeEffects()) {
    LONGWAVE_RETURN_IF_ERROR(std::visit([this](auto& each) { return Do(each); }, effect));
  }
  return absl::OkStatus();
}

absl::Status TrainingMember::Do(RetireCheckpoint&) { return keeper_.Retire(); }

absl::Status TrainingMember::Do(KeepCheckpoint& keep) {
  const bool is_copy = keeper_.has_journal() && !keep.is_last;
  const absl::Time began = MonotonicNow();
  absl::Status kept = keeper_.Keep(std::move(keep), state_, loop_);
  absl::Duration took = MonotonicNow() - began;
  // The core has copied the residual.
  if (is_copy) took += advanced_;
  metrics_.seconds(Phase::kCheckpoint)->Add(absl::ToDoubleSeconds(took));
  metrics_.ShowCheckpoints(keeper_.written(), keeper_.failed());
  if (is_copy) {
    if (!keeper_.prepares()) core_.CheckpointCopied(took, Now());
  } else {
    PassCrashPoint("checkpointed");
  }
  return kept;
}

absl::Status TrainingMember::Do(SettledNote& note) {
  keeper_.Note({.kind = note.kind, .segment = note.segment, .round = note.round});
  return absl::OkStatus();
}

absl::Status TrainingMember::Do(SegmentPush& push) {
  const bool is_here = owned().Contains(push.segment);
  if (is_here && !push.sent_before && !core_.fills())
    metrics_.OnPush(push, parts_.pipeline->report(push.segment));
  const PhaseTimer timer(metrics_.seconds(Phase::kSend));
  if (keeper_.has_journal() && !push.sent_before) {
    JournalRecord record{.kind = JournalKind::kPush,
                         .segment = push.segment,
                         .round = push.round,
                         .fragment = core_.fragment(),
                         .accounted = push.accounted,
                         .norm = push.norm,
                         .weight = push.weight,
                         .step = core_.step(),
                         .tokens = core_.counts().tokens,
                         .payload = push.payload};
    return keeper_.Post(std::move(push), std::move(record));
  }
  LONGWAVE_RETURN_IF_ERROR(parts_.exchange->Post(std::move(push)));
  if (is_here) PassCrashPoint("posted");
  return absl::OkStatus();
}

absl::Status TrainingMember::Do(FetchWish& wish) {
  return parts_.exchange->Fetch(wish.segment, wish.from_round, wish.until_round);
}

absl::Status TrainingMember::Do(FragmentApplied&) {
  has_moved_ = true;
  state_.bytes = bytes_before_ + parts_.exchange->counts();
  const absl::Time began = MonotonicNow();
  const absl::Status applied = loop_.FragmentApplied();
  state_.seconds_computing += absl::ToDoubleSeconds(MonotonicNow() - began);
  LONGWAVE_RETURN_IF_ERROR(applied);
  PassCrashPoint("applied");
  return absl::OkStatus();
}

absl::Status TrainingMember::Do(RoundReport& report) {
  if (parts_.node != nullptr) {
    LONGWAVE_ASSIGN_OR_RETURN(report.segment_hashes,
                              parts_.node->Hashes(std::move(report.segment_hashes)));
  }
  // A validation loss that is not finite is reported before this worker ends because of it.
  absl::Status ended = loop_.EndRound(&report);
  if (!ended.ok() && !report.validation_loss.has_value()) return ended;
  if (report.round < rounds()) metrics_.RoundDone(report.round, parts_.exchange->NewestOpenRound());
  metrics_.ShowRenewals(parts_.exchange->renewals());
  report.bytes = state_.bytes;
  report.seconds_computing = state_.seconds_computing;
  report.seconds_syncing = state_.seconds_syncing;
  // The run may end as soon as the coordinator has the report, so the state goes first.
  ReportState();
  if (const auto line = progress_.RoundDone(report, plan().rounds(), MonotonicNow())) {
    Log(LogLevel::kInfo, *line);
    Log(LogLevel::kInfo, metrics_.TakeSeconds(state_.seconds_computing));
  }
  parts_.control->Report(std::move(report));
  return ended;
}

absl::Status TrainingMember::Do(TellFinal& final) {
  state_.step = core_.step();
  LONGWAVE_ASSIGN_OR_RETURN(final_, loop_.Conclude(final.writes_weights));
  SetPhase(WorkerPhase::kDone);
  parts_.control->Finish(final_);
  return absl::OkStatus();
}

absl::Status TrainingMember::Do(CoreNotice& notice) {
  if (notice.is_warning) Warn(notice.text);
  if (!notice.is_warning) Log(LogLevel::kInfo, notice.text);
  return absl::OkStatus();
}

}  // namespace longwave
