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
      states_(options_.connection_count),
      due_(options_.connections.size()) {}

bool PushLedger::is_open(uint32_t segment) const {
  return entries_[segment].stage != Stage::kSettled;
}

uint32_t PushLedger::next_round(uint32_t segment) const {
  const Entry& entry = entries_[segment];
  if (!entry.ever_posted) return 0;
  const bool has_it = entry.stage == Stage::kSettled && !entry.gone;
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
  const uint64_t up = push.payload.size();
  const uint64_t down = entry.merged_bytes > 0 ? entry.merged_bytes : up;  // as far as is known
  entry = {.stage = Stage::kUnsent,
           .ever_posted = true,
           .push = std::move(push),
           .outstanding_bytes = up + down,
           .merged_bytes = entry.merged_bytes};
  ConnectionOf(segment).outstanding_bytes += up + down;
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
  const bool pushes = IsUntaken(entry);
  FrameHeader header{.kind = pushes ? FrameKind::kPush : FrameKind::kPull,
                     .run = options_.run,
                     .epoch = push.epoch,
                     .round = push.round,
                     .worker = options_.worker,
                     .segment = push.segment};
  if (pushes) {
    header.weight = push.weight;
    header.norm = push.norm;
    header.contributions = push.accounted;
  }
  return {.connection = options_.connections[push.segment],
          .header = header,
          .payload = pushes ? push.payload : Buffer()};
}

void PushLedger::MarkOverdue(uint32_t connection, absl::Time now) {
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    if (options_.connections[segment] != connection) continue;
    Entry& entry = entries_[segment];
    if (entry.repetitions > 0 && due_.at(segment) <= now) entry.overdue = true;
  }
}

std::optional<OutgoingFrame> PushLedger::Due(absl::Time now) {
  while (due_.front_at() <= now) {
    const uint32_t segment = due_.front();
    const uint32_t connection = options_.connections[segment];
    Connection& state = states_[connection];
    Entry& entry = entries_[segment];
    if (const absl::Time then = connections_->held_until(connection); then > now) {
      due_.Set(segment, then);
      continue;
    }
    if (entry.repetitions == 0) return FrameFor(entry);
    if (!entry.overdue) {
      const absl::Time silent_at =
          state.told + RoundSilence(options_, entry.repetitions - 1, state.outstanding_bytes);
      if (silent_at > now) {
        due_.Set(segment, silent_at);
        continue;
      }
      // The first of them to be answered ends the silence, and must not hold up the others.
      MarkOverdue(connection, now);
    }
    if (connections_->heard(connection) >= entry.sent_at) return FrameFor(entry);
    due_.Set(segment, absl::InfiniteFuture());
    state.parked.push_back(segment);
  }
  return std::nullopt;
}

void PushLedger::Sent(const OutgoingFrame& frame, absl::Time now) {
  Entry& entry = entries_[frame.header.segment];
  if (frame.header.kind == FrameKind::kPush) {
    entry.stage = Stage::kSent;
    entry.sent = true;
  }
  entry.overdue = false;
  entry.sent_at = now;
  Schedule(entry, now + RoundSilence(options_, entry.repetitions++,
                                     ConnectionOf(entry.push.segment).outstanding_bytes));
}

void PushLedger::Heard(uint32_t connection, absl::Time now) {
  for (const uint32_t segment : std::exchange(states_[connection].parked, {})) {
    // Nobody else has set a time for it since.
    if (IsOutstanding(entries_[segment]) && due_.at(segment) == absl::InfiniteFuture()) {
      due_.Set(segment, now);
    }
  }
}

void PushLedger::Again(uint32_t connection, absl::Time now) {
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    Entry& entry = entries_[segment];
    if (options_.connections[segment] != connection) continue;
    // Their rounds may happen again: see FetchLedger::Again.
    entry.early.reset();
    if (entry.stage != Stage::kSettled) entry.merged.reset();
    // Also what waits for its next turn, since a copy of it was refused after it was accepted, and
    // what was late: a round that happens again is open for it, and may wait for nobody else.
    if (entry.stage != Stage::kSettled && !IsUntaken(entry)) entry.stage = Stage::kSent;
    if (!IsOutstanding(entry)) continue;
    entry.repetitions = 0;
    due_.Set(segment, now);
  }
}

void PushLedger::Resume(uint32_t connection, absl::Time now) {
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    Entry& entry = entries_[segment];
    if (options_.connections[segment] != connection || !IsOutstanding(entry)) continue;
    entry.overdue = true;
    due_.Set(segment, now);
  }
}

std::vector<Settled> PushLedger::TakeSettled() { return std::exchange(settled_, {}); }

void PushLedger::Take(const FrameHeader& header, const Buffer& payload, absl::Time now) {
  Entry& entry = entries_[header.segment];
  if (header.kind == FrameKind::kAnswer) TakeAnswer(entry, header, payload, now);
  if (header.kind == FrameKind::kMerged) TakeMerged(entry, header, payload, now);
}

void PushLedger::TakeMerged(Entry& entry, const FrameHeader& header, const Buffer& payload,
                            absl::Time now) {
  const uint32_t round = entry.push.round;
  if (entry.stage != Stage::kSettled && header.round == round) {
    ConnectionOf(header.segment).told = now;
    if (entry.merged.has_value()) return;
    entry.merged = payload;
    return SettleIfKnown(entry);
  }
  // Of a round that is over it is a repetition.
  if (entry.ever_posted && header.round <= round) return;
  if (!entry.early.has_value() || header.round < entry.early->round) {
    entry.early = Early{header.round, payload};
  }
}

void PushLedger::TakeAnswer(Entry& entry, const FrameHeader& header, const Buffer& payload,
                            absl::Time now) {
  // Answers to repetitions in earlier rounds come late and mean nothing any more.
  if (entry.stage == Stage::kSettled || header.round != entry.push.round) return;
  if (!MayAnswer(header, FrameKind::kPush) && !MayAnswer(header, FrameKind::kPull)) return;
  const bool refused = header.outcome == Outcome::kBusy || header.outcome == Outcome::kNotMember;
  if (!refused) ConnectionOf(header.segment).told = now;
  switch (header.outcome) {
    case Outcome::kNone:
      return;
    case Outcome::kAccepted:
      return WaitForUpdate(entry, header, Stage::kAccepted, now);
    case Outcome::kDuplicate: {
      const bool is_own = header.held_crc == Crc32c(entry.push.payload.bytes());
      if (!is_own && entry.push.accounted > 0 && IsUntaken(entry)) {
        failure_ = absl::FailedPreconditionError(absl::StrCat(
            "the shard of segment ", header.segment, " has another push of this worker to round ",
            header.round, ": another process goes on from a copy of its folder"));
        return;
      }
      return WaitForUpdate(entry, header, is_own ? Stage::kAccepted : Stage::kLate, now);
    }
    case Outcome::kLate:
      return WaitForUpdate(entry, header, Stage::kLate, now);
    case Outcome::kBusy:
    case Outcome::kNotMember:
      return Refused(entry, now);
    case Outcome::kGone:
      if (entry.stage == Stage::kAccepted) return Settle(entry, Fate::kAccepted);
      return Settle(entry, entry.stage == Stage::kLate ? Fate::kLate : Fate::kUnknown);
    case Outcome::kRejected: {
      const auto reason = payload.bytes();
      failure_ = absl::FailedPreconditionError(absl::StrCat(
          "the shard of segment ", header.segment, " rejected a frame of round ", header.round,
          ": ", absl::string_view(reinterpret_cast<const char*>(reason.data()), reason.size())));
      return;
    }
  }
}

void PushLedger::WaitForUpdate(Entry& entry, const FrameHeader& header, Stage stage,
                               absl::Time now) {
  // What was accepted stays so: `late` may be the answer to a repetition that came after the close.
  if (!IsUntaken(entry)) return;
  // Its round is open: an update of it that was here before this contribution had its answer came
  // from a shard that has lost its folder since, and will be another one.
  if (stage != Stage::kLate && header.weight <= entry.push.round) entry.merged.reset();
  entry.stage = stage;
  entry.repetitions = 1;
  entry.refusals = 0;
  entry.overdue = false;
  entry.sent_at = now;
  Schedule(entry,
           now + RoundSilence(options_, 0, ConnectionOf(entry.push.segment).outstanding_bytes));
  SettleIfKnown(entry);
}

void PushLedger::Refused(Entry& entry, absl::Time now) {
  // The answer to another copy of one that waits for its next turn already.
  if (entry.stage == Stage::kUnsent) return SettleIfKnown(entry);
  if (entry.stage == Stage::kSent) entry.stage = Stage::kUnsent;
  entry.repetitions = 0;
  Schedule(entry, now + BusyBackoff(options_, entry.push.segment, entry.refusals++));
  SettleIfKnown(entry);
}

void PushLedger::SettleIfKnown(Entry& entry) {
  if (!entry.merged.has_value()) return;
  if (entry.stage == Stage::kAccepted) return Settle(entry, Fate::kAccepted);
  // What no copy of was ever sent is in no merge.
  const bool never_came = !entry.sent && !entry.push.sent_before;
  if (entry.stage == Stage::kLate || never_came) Settle(entry, Fate::kLate);
}

void PushLedger::Settle(Entry& entry, Fate fate) {
  const uint32_t segment = entry.push.segment;
  const bool gone = !entry.merged.has_value();
  settled_.push_back({.round = entry.push.round,
                      .segment = segment,
                      .merged = gone ? Buffer() : *std::move(entry.merged),
                      .fate = fate,
                      .gone = gone});
  entry.stage = Stage::kSettled;
  entry.gone = gone;
  if (!gone) entry.merged_bytes = settled_.back().merged.size();
  entry.merged.reset();
  ConnectionOf(segment).outstanding_bytes -= std::exchange(entry.outstanding_bytes, 0);
  connections_->Relieve(options_.connections[segment]);
  // The encoder reuses the payload's memory once nobody holds it.
  entry.push.payload = Buffer();
  Schedule(entry, absl::InfiniteFuture());
}

}  // namespace longwave
