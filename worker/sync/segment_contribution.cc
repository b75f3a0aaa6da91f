#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/wire/crc32c.h"
#include "worker/sync/segment_ledger.h"

namespace longwave {

absl::Status SegmentLedger::Post(SegmentPush push, absl::Time now) {
  const uint32_t segment = push.segment;
  LONGWAVE_RETURN_IF_ERROR(CheckFree("push", segment));
  StopFetch(segment, now);
  Entry& entry = entries_[segment];
  const uint32_t round = push.round;
  entry.kept.erase(entry.kept.begin(), entry.kept.lower_bound(round));
  entry = {.stage = Stage::kUnsent,
           .settled_next = round,
           .kept = std::move(entry.kept),
           .merged_bytes = entry.merged_bytes,
           .push = std::move(push)};
  connections_->Expect(connection(segment), now);
  Schedule(segment, now);
  SettleIfKnown(entry);  // a quorum was ahead
  return absl::OkStatus();
}

OutgoingFrame SegmentLedger::ContributionFrame(const Entry& entry) const {
  const SegmentPush& push = entry.push;
  OutgoingFrame frame{.connection = connection(push.segment)};
  if (IsUntaken(entry.stage)) {
    frame.header = PushFrame{.run = options_.run,
                             .epoch = push.epoch,
                             .round = push.round,
                             .worker = options_.worker,
                             .segment = push.segment,
                             .weight = push.weight,
                             .norm = push.norm,
                             .accounted = push.accounted};
    frame.payload = push.payload;
  } else {
    frame.header = PullFrame{.run = options_.run,
                             .epoch = push.epoch,
                             .round = push.round,
                             .worker = options_.worker,
                             .segment = push.segment};
  }
  return frame;
}

void SegmentLedger::OnContributionAnswer(Entry& entry, const AnswerFrame& answer,
                                         const Buffer& payload, absl::Time now) {
  // Late answers to repetitions in earlier rounds, and to a fetch before, have no meaning.
  if (answer.round != entry.push.round) return;
  if (answer.to != FrameKind::kPush && answer.to != FrameKind::kPull) return;
  switch (answer.outcome) {
    case Outcome::kNone:
      return;
    case Outcome::kAccepted:
      return WaitForUpdate(entry, answer, Stage::kAccepted);
    case Outcome::kDuplicate: {
      const bool is_own = answer.held_crc == Crc32c(entry.push.payload.bytes());
      if (!is_own && entry.push.accounted > 0 && IsUntaken(entry.stage)) {
        failure_ = FailedPrecondition("the shard of segment ", answer.segment,
                                      " has another push of this worker to round ", answer.round,
                                      ": another process goes on from a copy of its folder");
        return;
      }
      return WaitForUpdate(entry, answer, is_own ? Stage::kAccepted : Stage::kLate);
    }
    case Outcome::kLate:
      return WaitForUpdate(entry, answer, Stage::kLate);
    case Outcome::kBusy:
    case Outcome::kNotMember:
      return Refused(entry, now);
    case Outcome::kCompacted:
      if (entry.stage == Stage::kAccepted) return Settle(entry, Fate::kAccepted);
      return Settle(entry, entry.stage == Stage::kLate ? Fate::kLate : Fate::kUnknown);
    case Outcome::kRejected: {
      const auto reason = payload.bytes();
      failure_ = FailedPrecondition(
          "the shard of segment ", answer.segment, " rejected a frame of round ", answer.round,
          ": ", absl::string_view(reinterpret_cast<const char*>(reason.data()), reason.size()));
      return;
    }
  }
}

void SegmentLedger::WaitForUpdate(Entry& entry, const AnswerFrame& answer, Stage stage) {
  // An accepted contribution stays accepted: `late` may answer a repetition after the close.
  if (!IsUntaken(entry.stage)) return;
  // The round is open. So an update of it from before this answer came from a shard that has lost
  // its folder since, and the new update will differ.
  if (stage != Stage::kLate && answer.open_round <= entry.push.round) {
    entry.kept.erase(entry.push.round);
  }
  entry.stage = stage;
  entry.refusals = 0;
  Schedule(entry.push.segment, absl::InfiniteFuture());
  SettleIfKnown(entry);
}

void SegmentLedger::Refused(Entry& entry, absl::Time now) {
  // A contribution in backoff gets the answer to another copy.
  if (entry.stage == Stage::kUnsent) return SettleIfKnown(entry);
  if (entry.stage == Stage::kSent) entry.stage = Stage::kUnsent;
  const uint32_t segment = entry.push.segment;
  Schedule(segment, now + BusyBackoff(options_, segment, entry.refusals++));
  SettleIfKnown(entry);
}

void SegmentLedger::SettleIfKnown(Entry& entry) {
  if (!entry.kept.contains(entry.push.round)) return;
  if (entry.stage == Stage::kAccepted) return Settle(entry, Fate::kAccepted);
  // A contribution that was never sent is in no merge.
  const bool never_came = !entry.sent && !entry.push.sent_before;
  if (entry.stage == Stage::kLate || never_came) Settle(entry, Fate::kLate);
}

void SegmentLedger::Settle(Entry& entry, Fate fate) {
  const uint32_t segment = entry.push.segment;
  const auto update = entry.kept.extract(entry.push.round);
  if (!update.empty()) {
    entry.settled_next = entry.push.round + 1;
    entry.merged_bytes = update.mapped().size();
  }
  settled_.push_back({.round = entry.push.round,
                      .segment = segment,
                      .merged = update.empty() ? Buffer() : update.mapped(),
                      .fate = fate,
                      .compacted = update.empty()});
  entry.stage = Stage::kIdle;
  connections_->Relieve(connection(segment));
  // The encoder reuses the payload's memory once it is released.
  entry.push.payload = Buffer();
  Schedule(segment, absl::InfiniteFuture());
}

}  // namespace longwave
