#include "worker/sync/connections.h"

#include <algorithm>
#include <utility>

namespace longwave {

Connections::Connections(LedgerOptions options)
    : options_(std::move(options)),
      states_(options_.connection_count),
      due_(options_.connection_count) {
  for (uint32_t c = 0; c < options_.connection_count; ++c) {
    states_[c].number = options_.connection_number;
    Schedule(c);
  }
}

absl::Time Connections::GreetingAt(const State& state) const {
  if (!state.welcome || state.unanswered_since != absl::InfiniteFuture())
    return state.greeted + options_.hello_every;
  if (state.outstanding == 0)
    return std::max(state.greeted, state.answered) + kIdleHellos * options_.hello_every;
  return std::max(state.greeted, state.expecting_since) + options_.hello_every;
}

void Connections::Expect(uint32_t connection, absl::Time now) {
  State& state = states_[connection];
  if (state.outstanding++ > 0) return;
  state.expecting_since = now;
  Schedule(connection);
}

void Connections::Relieve(uint32_t connection) {
  if (--states_[connection].outstanding == 0) Schedule(connection);
}

Connections::News Connections::OnFrame(uint32_t connection, const FrameHeader& header,
                                       absl::Time now) {
  State& state = states_[connection];
  const uint32_t received = state.received++;
  if (header.kind() == FrameKind::kAnswer) {
    state.answered = now;
    const absl::Time awaited = std::exchange(state.unanswered_since, absl::InfiniteFuture());
    if (awaited != absl::InfiniteFuture()) Schedule(connection);
  }
  // The request comes from a new process at the other end, which does not know this worker's limit.
  if (header.kind() == FrameKind::kRequest && header.segment() == kNoSegment) {
    state.greeted = absl::InfinitePast();
    state.welcome = false;
    Schedule(connection);
    return {};
  }
  const auto* const welcome = std::get_if<WelcomeFrame>(&header);
  // A shard that rejects the hello does not know this worker yet. The coordinator will tell it.
  if (welcome == nullptr || welcome->outcome != Outcome::kAccepted) return {};
  News news{.another = state.incarnation != 0 && welcome->incarnation != state.incarnation};
  const uint32_t missing_here = welcome->shard_frames_sent - received;
  // The shard may also have answered frames sent after the hello.
  if (!state.welcome || missing_here != state.missing_here) {
    news.lost_up_to = kAllFrames;
  } else if (welcome->frames_missing != state.missing_there) {
    news.lost_up_to = welcome->frames_sent;
  }
  state.missing_here = missing_here;
  state.missing_there = welcome->frames_missing;
  state.incarnation = welcome->incarnation;
  state.welcome = true;
  Schedule(connection);
  state.renewed = false;
  state.silent_connections = 0;
  return news;
}

std::optional<Connections::Lost> Connections::TakeLost(
    absl::Time now, absl::FunctionRef<absl::Duration(uint32_t connection)> on_the_way) {
  for (uint32_t c = 0; c < states_.size(); ++c) {
    State& state = states_[c];
    const int doublings = std::clamp(state.silent_connections - 1, 0, kPatienceDoublings);
    const absl::Time until = std::max(state.unanswered_since, state.renewed_at) +
                             (1 << doublings) * kUnansweredHellos * options_.hello_every;
    if (until > now) continue;
    const bool takes_nothing =
        state.refused_since + kUnansweredHellos * options_.hello_every <= now;
    if (!takes_nothing && until + on_the_way(c) > now) continue;
    const Lost lost{.connection = c,
                    .unanswered = now - state.unanswered_since,
                    .is_first = !std::exchange(state.renewed, true)};
    if (state.greeted != absl::InfinitePast()) ++state.silent_connections;
    state.renewed_at = now;
    ++state.number;
    state.welcome = false;
    state.sent = state.received = 0;
    state.greeted = absl::InfinitePast();
    state.held_until = absl::InfinitePast();
    state.refused_since = absl::InfiniteFuture();
    Schedule(c);
    return lost;
  }
  return std::nullopt;
}

void Connections::Hold(uint32_t connection, absl::Time then) {
  State& state = states_[connection];
  state.held_until = then;
  state.unanswered_since = std::min(state.unanswered_since, then);
  state.refused_since = std::min(state.refused_since, then);
}

void Connections::Reconnected(uint32_t connection, absl::Time now) {
  State& state = states_[connection];
  state = {.answered = now,
           .expecting_since = state.expecting_since,
           .number = state.number + 1,
           .outstanding = state.outstanding};
  Schedule(connection);
}

std::optional<OutgoingFrame> Connections::NextFrame(absl::Time now) {
  while (due_.front_at() <= now) {
    const uint32_t connection = due_.front();
    const State& state = states_[connection];
    // The connection is held, or a frame has moved an idle connection's next hello.
    if (const absl::Time then = std::max(state.held_until, GreetingAt(state)); then > now) {
      due_.Set(connection, then);
      continue;
    }
    return OutgoingFrame{.connection = connection,
                         .header = HelloFrame{.run = options_.run,
                                              .connection = state.number,
                                              .frames_sent = state.sent,
                                              .worker = options_.worker,
                                              .bytes_per_second_max = options_.download_bytes_per_s,
                                              .node = options_.node},
                         .payload = Buffer()};
  }
  return std::nullopt;
}

void Connections::Sent(uint32_t connection, FrameKind kind, absl::Time now) {
  State& state = states_[connection];
  ++state.sent;
  state.refused_since = absl::InfiniteFuture();
  if (kind != FrameKind::kHello) return;
  state.greeted = now;
  state.unanswered_since = std::min(state.unanswered_since, now);
  Schedule(connection);
}

}  // namespace longwave
