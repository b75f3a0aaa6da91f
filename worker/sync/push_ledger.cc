#include "worker/sync/push_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/wire/crc32c.h"

namespace longwave {

PushLedger::PushLedger(LedgerOptions options, Connections* connections)
    : options_(std::move(options)),
      connections_(connections),
      entries_(options_.connections.size()),
      due_(options_.connections.size()) {}

bool PushLedger::is_open(uint32_t segment) const {
  return entries_[segment].stage != Stage::kSettled;
}

uint32_t PushLedger::next_round(uint32_t segment) const {
  const Entry& entry = entries_[segment];
  if (!entry.ever_posted) return 0;
  const bool has_it = entry.stage == Stage::kSettled && !entry.compacted;
  return entry.push.round + (has_it ? 1 : 0);
}

void PushLedger::Schedule(const Entry& entry, absl::Time at) { due_.Set(entry.push.segment, at); }

absl::Status PushLedger::Post(SegmentPush push, absl::Time now) {
  const uint32_t segment = push.segment;
  if (segment >= entries_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got a push to segment ", segment, " of ", entries_.size()));
  }
  Entry& entry = entries_[segment];
  if (entry.stage != Stage::kSettled) {
    return absl::FailedPreconditionError(absl::StrCat("got segment ", segment, "'s push of round ",
                                                      push.round, ", wanted that of round ",
                                                      entry.push.round, " settled before"));
  }
  std::optional<Early> early = std::exchange(entry.early, std::nullopt);
  entry = {.stage = Stage::kUnsent,
           .ever_posted = true,
           .push = std::move(push),
           .merged_bytes = entry.merged_bytes};
  connections_->Expect(options_.connections[segment], now);
  Schedule(entry, now);
  if (early.has_value() && early->round == entry.push.round) {
    entry.merged = std::move(early->merged);
    SettleIfKnown(entry);
  } else if (early.has_value() && early->round > entry.push.round) {
    entry.early = std::move(early);
  }
  return absl::OkStatus();
}

OutgoingFrame PushLedger::FrameFor(const Entry& entry) const {
  const SegmentPush& push = entry.push;
  OutgoingFrame frame{.connection = options_.connections[push.segment]};
  if (IsUntaken(entry)) {
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

std::optional<OutgoingFrame> PushLedger::Due(absl::Time now) {
  while (due_.front_at() <= now) {
    const uint32_t segment = due_.front();
    const absl::Time ready_at = connections_->ready_at(options_.connections[segment]);
    if (ready_at <= now) return FrameFor(entries_[segment]);
    due_.Set(segment, ready_at);
  }
  return std::nullopt;
}

void PushLedger::Sent(const OutgoingFrame& frame) {
  Entry& entry = entries_[frame.header.segment()];
  if (frame.header.kind() == FrameKind::kPush) {
    entry.stage = Stage::kSent;
    entry.sent = true;
  }
  entry.sent_as = connections_->sent(frame.connection);
  Schedule(entry, absl::InfiniteFuture());
}

void PushLedger::Again(uint32_t connection, absl::Time now) {
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    Entry& entry = entries_[segment];
    if (options_.connections[segment] != connection) continue;
    // The shard may repeat their rounds: see FetchLedger::Again.
    entry.early.reset();
    if (entry.stage == Stage::kSettled) continue;
    entry.merged.reset();
    // Contributions in backoff are included, since a copy may have been rejected after the shard
    // accepted another. Late ones are included, since a repeated round is open for them and may
    // wait for no other worker.
    if (!IsUntaken(entry)) entry.stage = Stage::kSent;
    if (!WaitsForTurn(entry)) Schedule(entry, now);
  }
}

void PushLedger::Resume(uint32_t connection, uint32_t lost_up_to, absl::Time now) {
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    Entry& entry = entries_[segment];
    if (options_.connections[segment] != connection || entry.stage == Stage::kSettled) continue;
    if (!WaitsForTurn(entry) && entry.sent_as <= lost_up_to) Schedule(entry, now);
  }
}

uint64_t PushLedger::OutstandingBytes(uint32_t connection) const {
  uint64_t bytes = 0;
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    const Entry& entry = entries_[segment];
    if (options_.connections[segment] != connection || entry.stage == Stage::kSettled) continue;
    const uint64_t up = entry.push.payload.size();
    bytes += up + (entry.merged_bytes > 0 ? entry.merged_bytes : up);  // an estimate at first
  }
  return bytes;
}

std::vector<Settled> PushLedger::TakeSettled() { return std::exchange(settled_, {}); }

void PushLedger::Take(const MergedFrame& merged, const Buffer& payload) {
  Entry& entry = entries_[merged.segment];
  const uint32_t round = entry.push.round;
  if (entry.stage != Stage::kSettled && merged.round == round) {
    if (entry.merged.has_value()) return;
    entry.merged = payload;
    return SettleIfKnown(entry);
  }
  // An update of a finished round is a repetition.
  if (entry.ever_posted && merged.round <= round) return;
  if (!entry.early.has_value() || merged.round < entry.early->round) {
    entry.early = Early{merged.round, payload};
  }
}

void PushLedger::Take(const AnswerFrame& answer, const Buffer& payload, absl::Time now) {
  Entry& entry = entries_[answer.segment];
  // Late answers to repetitions in earlier rounds have no meaning.
  if (entry.stage == Stage::kSettled || answer.round != entry.push.round) return;
  if (answer.to != FrameKind::kPush && answer.to != FrameKind::kPull) return;
  switch (answer.outcome) {
    case Outcome::kNone:
      return;
    case Outcome::kAccepted:
      return WaitForUpdate(entry, answer, Stage::kAccepted);
    case Outcome::kDuplicate: {
      const bool is_own = answer.held_crc == Crc32c(entry.push.payload.bytes());
      if (!is_own && entry.push.accounted > 0 && IsUntaken(entry)) {
        failure_ = absl::FailedPreconditionError(absl::StrCat(
            "the shard of segment ", answer.segment, " has another push of this worker to round ",
            answer.round, ": another process goes on from a copy of its folder"));
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
      failure_ = absl::FailedPreconditionError(absl::StrCat(
          "the shard of segment ", answer.segment, " rejected a frame of round ", answer.round,
          ": ", absl::string_view(reinterpret_cast<const char*>(reason.data()), reason.size())));
      return;
    }
  }
}

void PushLedger::WaitForUpdate(Entry& entry, const AnswerFrame& answer, Stage stage) {
  // An accepted contribution stays accepted: `late` may answer a repetition after the close.
  if (!IsUntaken(entry)) return;
  // The round is open. So an update of it from before this answer came from a shard that has lost
  // its folder since, and the new update will differ.
  if (stage != Stage::kLate && answer.open_round <= entry.push.round) entry.merged.reset();
  entry.stage = stage;
  entry.refusals = 0;
  Schedule(entry, absl::InfiniteFuture());
  SettleIfKnown(entry);
}

void PushLedger::Refused(Entry& entry, absl::Time now) {
  // A contribution in backoff gets the answer to another copy.
  if (entry.stage == Stage::kUnsent) return SettleIfKnown(entry);
  if (entry.stage == Stage::kSent) entry.stage = Stage::kUnsent;
  Schedule(entry, now + BusyBackoff(options_, entry.push.segment, entry.refusals++));
  SettleIfKnown(entry);
}

void PushLedger::SettleIfKnown(Entry& entry) {
  if (!entry.merged.has_value()) return;
  if (entry.stage == Stage::kAccepted) return Settle(entry, Fate::kAccepted);
  // A contribution that was never sent is in no merge.
  const bool never_came = !entry.sent && !entry.push.sent_before;
  if (entry.stage == Stage::kLate || never_came) Settle(entry, Fate::kLate);
}

void PushLedger::Settle(Entry& entry, Fate fate) {
  const uint32_t segment = entry.push.segment;
  const bool compacted = !entry.merged.has_value();
  settled_.push_back({.round = entry.push.round,
                      .segment = segment,
                      .merged = compacted ? Buffer() : *std::move(entry.merged),
                      .fate = fate,
                      .compacted = compacted});
  entry.stage = Stage::kSettled;
  entry.compacted = compacted;
  if (!compacted) entry.merged_bytes = settled_.back().merged.size();
  entry.merged.reset();
  connections_->Relieve(options_.connections[segment]);
  // The encoder reuses the payload's memory once it is released.
  entry.push.payload = Buffer();
  Schedule(entry, absl::InfiniteFuture());
}

}  // namespace longwave
