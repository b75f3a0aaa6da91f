#include "worker/sync/push_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/rng.h"

namespace longwave {

PushLedger::PushLedger(LedgerOptions options)
    : options_(std::move(options)),
      entries_(options_.connections.size()),
      connections_(options_.connection_count),
      tasks_(options_.connection_count + options_.connections.size()) {
  for (uint32_t i = 0; i < tasks_.size(); ++i) tasks_[i].index = i;
  for (uint32_t c = 0; c < options_.connection_count; ++c) Schedule(c, absl::InfinitePast());
}

void PushLedger::Schedule(uint32_t index, absl::Time at) {
  Task& task = tasks_[index];
  due_.erase(task);
  task.at = at;
  task.order = ++order_;
  if (at != absl::InfiniteFuture()) due_.insert(task);
}

absl::Duration PushLedger::Silence(int repetitions) const {
  return options_.retry_after * (1 << std::min(repetitions, kSilenceDoublings));
}

absl::Duration PushLedger::Silence(int repetitions, const Connection& connection) const {
  return Silence(repetitions) +
         absl::Seconds(static_cast<int64_t>(connection.outstanding_bytes / kBytesPerSecondMin));
}

// Workers that were refused at the same time come back at different ones.
absl::Duration PushLedger::BusyBackoff(const Entry& entry) const {
  const absl::Duration longest =
      std::min(kBusyBackoffMin * (1 << std::min(entry.busy, 10)), kBusyBackoffMax);
  Rng rng((uint64_t{options_.worker} << 32) | entry.push.segment,
          static_cast<uint64_t>(entry.busy));
  return longest * (0.5 + 0.5 * rng.Uniform());
}

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
  connections_[options_.connections[segment]].outstanding_bytes += up + down;
  Schedule(TaskOf(segment), now);
  if (early.has_value() && early->round == entry.push.round) {
    entry.merged = std::move(early->merged);
    SettleIfKnown(entry);
  } else if (early.has_value() && early->round > entry.push.round) {
    entry.early = std::move(early);
  }
  return absl::OkStatus();
}

PushLedger::Outgoing PushLedger::Hello(uint32_t connection) const {
  return {.connection = connection,
          .header = {.kind = FrameKind::kHello,
                     .run = options_.run,
                     .worker = options_.worker,
                     .segment = kNoSegment,
                     .weight = options_.download_bytes_per_s},
          .payload = Buffer()};
}

PushLedger::Outgoing PushLedger::FrameFor(const Entry& entry) const {
  const SegmentPush& push = entry.push;
  const bool pushes = entry.stage == Stage::kUnsent || entry.stage == Stage::kSent;
  FrameHeader header{.kind = pushes ? FrameKind::kPush : FrameKind::kPull,
                     .run = options_.run,
                     .epoch = push.epoch,
                     .round = push.round,
                     .worker = options_.worker,
                     .segment = push.segment};
  if (pushes) {
    header.weight = push.weight;
    header.norm = push.norm;
  }
  return {.connection = options_.connections[push.segment],
          .header = header,
          .payload = pushes ? push.payload : Buffer()};
}

absl::Time PushLedger::SilentAt(const Entry& entry, const Connection& connection) const {
  return entry.repetitions == 0 ? absl::InfinitePast()
                                : connection.heard + Silence(entry.repetitions - 1, connection);
}

void PushLedger::MarkOverdue(uint32_t connection, absl::Time now) {
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    if (options_.connections[segment] != connection) continue;
    Entry& entry = entries_[segment];
    if (entry.repetitions > 0 && tasks_[TaskOf(segment)].at <= now) entry.overdue = true;
  }
}

std::optional<PushLedger::Outgoing> PushLedger::Due(absl::Time now) {
  while (!due_.empty() && due_.begin()->at <= now) {
    const uint32_t index = due_.begin()->index;
    const bool hello = index < options_.connection_count;
    Outgoing frame = hello ? Hello(index) : FrameFor(entries_[index - options_.connection_count]);
    const Connection& connection = connections_[frame.connection];
    if (connection.held_until > now) {
      Schedule(index, connection.held_until);
      continue;
    }
    if (hello) return frame;
    const Entry& entry = entries_[frame.header.segment];
    if (!entry.overdue) {
      if (const absl::Time silent_at = SilentAt(entry, connection); silent_at > now) {
        Schedule(index, silent_at);
        continue;
      }
      // The first of them to be answered ends the silence, and must not hold up the others.
      MarkOverdue(frame.connection, now);
    }
    // After a silence the connection may be another one: it is opened again first.
    const bool reopen = entry.repetitions > 0 && now - connection.greeted >= options_.retry_after;
    return reopen ? Hello(frame.connection) : std::move(frame);
  }
  return std::nullopt;
}

void PushLedger::Sent(const Outgoing& frame, absl::Time now) {
  if (frame.header.kind == FrameKind::kHello) {
    Connection& connection = connections_[frame.connection];
    connection.greeted = now;
    Schedule(frame.connection, now + Silence(connection.repetitions++));
    return;
  }
  Entry& entry = entries_[frame.header.segment];
  if (frame.header.kind == FrameKind::kPush) {
    entry.stage = Stage::kSent;
    ++entry.unanswered;
  }
  entry.overdue = false;
  Schedule(TaskOf(frame.header.segment),
           now + Silence(entry.repetitions++, connections_[frame.connection]));
}

void PushLedger::Held(const Outgoing& frame, absl::Time then) {
  connections_[frame.connection].held_until = then;
}

absl::Time PushLedger::DueAt() const {
  return due_.empty() ? absl::InfiniteFuture() : due_.begin()->at;
}

std::vector<Settled> PushLedger::TakeSettled() { return std::exchange(settled_, {}); }

void PushLedger::Take(uint32_t connection, const FrameHeader& header, const Buffer& payload,
                      absl::Time now) {
  if (header.run != options_.run) return;
  const bool answer = header.kind == FrameKind::kAnswer;
  const bool telling = header.segment != kNoSegment && header.outcome != Outcome::kBusy;
  if (telling) connections_[connection].heard = now;
  if (answer && header.segment == kNoSegment) {
    return TakeHelloAnswer(connection, header.outcome, now);
  }
  if (header.segment >= entries_.size()) return;
  Entry& entry = entries_[header.segment];
  if (answer) TakeAnswer(entry, header, payload, now);
  if (header.kind == FrameKind::kMerged) TakeMerged(entry, header, payload);
}

void PushLedger::TakeHelloAnswer(uint32_t connection, Outcome outcome, absl::Time now) {
  connections_[connection].repetitions = 0;
  // Rejected: the shard does not know this worker yet. It will be told by the coordinator.
  const bool known = outcome != Outcome::kRejected;
  Schedule(connection, known ? absl::InfiniteFuture() : now + kBusyBackoffMax);
}

void PushLedger::TakeMerged(Entry& entry, const FrameHeader& header, const Buffer& payload) {
  const uint32_t round = entry.push.round;
  if (entry.stage != Stage::kSettled && header.round == round) {
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
  const uint32_t task = TaskOf(header.segment);
  if (entry.unanswered > 0) --entry.unanswered;
  const bool open = entry.stage == Stage::kUnsent || entry.stage == Stage::kSent;
  switch (header.outcome) {
    case Outcome::kNone:
      return;
    case Outcome::kAccepted:
    case Outcome::kDuplicate:
      if (!open) return;
      entry.stage = Stage::kAccepted;
      entry.repetitions = 1;
      entry.overdue = false;
      Schedule(task, now + Silence(0, connections_[options_.connections[header.segment]]));
      return SettleIfKnown(entry);
    case Outcome::kLate:
      // Of one that was accepted, this is the answer to a repetition that came after the close.
      if (!open) return;
      entry.stage = Stage::kLate;
      entry.repetitions = 0;
      Schedule(task, now);
      return SettleIfKnown(entry);
    case Outcome::kBusy:
      if (entry.stage != Stage::kSent) return;
      entry.stage = Stage::kUnsent;
      entry.repetitions = 0;
      Schedule(task, now + BusyBackoff(entry));
      ++entry.busy;
      return SettleIfKnown(entry);
    case Outcome::kRejected: {
      const auto reason = payload.bytes();
      failure_ = absl::FailedPreconditionError(absl::StrCat(
          "the shard of segment ", header.segment, " rejected a frame of round ", header.round,
          ": ", absl::string_view(reinterpret_cast<const char*>(reason.data()), reason.size())));
      return;
    }
  }
}

void PushLedger::SettleIfKnown(Entry& entry) {
  if (!entry.merged.has_value()) return;
  // An update of a round that no push of this worker has reached was merged without it.
  const bool never_came = entry.stage == Stage::kUnsent && entry.unanswered == 0;
  if (entry.stage != Stage::kAccepted && entry.stage != Stage::kLate && !never_came) return;
  settled_.push_back({.round = entry.push.round,
                      .segment = entry.push.segment,
                      .merged = *std::move(entry.merged),
                      .accepted = entry.stage == Stage::kAccepted});
  entry.stage = Stage::kSettled;
  entry.merged_bytes = settled_.back().merged.size();
  entry.merged.reset();
  connections_[options_.connections[entry.push.segment]].outstanding_bytes -=
      std::exchange(entry.outstanding_bytes, 0);
  // The encoder reuses the payload's memory once nobody holds it.
  entry.push.payload = Buffer();
  Schedule(TaskOf(entry.push.segment), absl::InfiniteFuture());
}

}  // namespace longwave
