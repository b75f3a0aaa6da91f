#include "server/service/pacer.h"

#include <algorithm>

namespace longwave {

void Pacer::SetRate(uint32_t worker, uint64_t bytes_per_s) {
  if (RateOf(worker) == bytes_per_s) return;
  Queue& queue = queues_[worker];
  if (bytes_per_s == 0 && queue.segments.empty()) {
    queues_.erase(worker);
    return;
  }
  queue.bucket = TokenBucket(bytes_per_s, static_cast<uint64_t>(static_cast<double>(bytes_per_s) *
                                                                absl::ToDoubleSeconds(kBurst)));
  if (!queue.segments.empty()) Schedule(worker, queue, absl::InfinitePast());  // its bucket is full
}

uint64_t Pacer::RateOf(uint32_t worker) const {
  const auto found = queues_.find(worker);
  return found == queues_.end() ? 0 : found->second.bucket.rate();
}

void Pacer::Charge(uint32_t worker, uint64_t bytes, absl::Time now) {
  const auto found = queues_.find(worker);
  if (found == queues_.end()) return;
  Queue& queue = found->second;
  queue.bucket.Take(bytes, now);
  if (!queue.segments.empty()) Schedule(worker, queue, now + WaitOf(queue, now));
}

bool Pacer::Admit(uint32_t worker, const SealedFrame& frame, absl::Time now) {
  const auto found = queues_.find(worker);
  if (found == queues_.end()) return true;
  Queue& queue = found->second;
  if (queue.segments.empty()) {
    const absl::Duration wait = WaitOf(queue, now);
    if (wait == absl::ZeroDuration()) return true;
    Schedule(worker, queue, now + wait);
  }
  Keep(queue, frame, Place::kLast);
  return false;
}

void Pacer::PutBack(uint32_t worker, SealedFrame frame, absl::Time until) {
  Queue& queue = queues_[worker];
  queue.not_before = until;
  Keep(queue, std::move(frame), Place::kFirst);
  Schedule(worker, queue, until);
}

std::optional<Pacer::Due> Pacer::Pop(absl::Time now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const uint32_t worker = due_.begin()->second;
    Queue& queue = queues_.find(worker)->second;
    // Not yet: after a PutBack the bucket was not asked.
    if (const absl::Duration wait = WaitOf(queue, now); wait > absl::ZeroDuration()) {
      Schedule(worker, queue, now + wait);
      continue;
    }
    const auto held = queue.frames.find(queue.segments.front());
    Due due{worker, std::move(held->second)};
    queue.frames.erase(held);
    queue.segments.pop_front();
    queue.bytes -= due.frame.wire_bytes();
    if (queue.segments.empty()) Unschedule(worker, queue);
    return due;
  }
  return std::nullopt;
}

absl::Time Pacer::NextDue() const {
  return due_.empty() ? absl::InfiniteFuture() : due_.begin()->first;
}

Pacer::Waiting Pacer::WaitingFor(uint32_t worker) const {
  const auto found = queues_.find(worker);
  if (found == queues_.end()) return {};
  return {.frames = found->second.segments.size(), .bytes = found->second.bytes};
}

void Pacer::Forget(uint32_t worker) {
  const auto found = queues_.find(worker);
  if (found == queues_.end()) return;
  Unschedule(worker, found->second);
  queues_.erase(found);
}

absl::Duration Pacer::WaitOf(const Queue& queue, absl::Time now) {
  return std::max({queue.bucket.WaitAt(now), queue.not_before - now, absl::ZeroDuration()});
}

void Pacer::Keep(Queue& queue, SealedFrame frame, Place place) {
  const uint32_t segment = frame.header().segment;
  const uint64_t bytes = frame.wire_bytes();
  const auto held = queue.frames.find(segment);
  if (held == queue.frames.end()) {
    queue.frames.emplace(segment, std::move(frame));
    if (place == Place::kFirst) {
      queue.segments.push_front(segment);
    } else {
      queue.segments.push_back(segment);
    }
  } else if (held->second.header().round <= frame.header().round) {
    queue.bytes -= held->second.wire_bytes();
    held->second = std::move(frame);
  } else {
    return;
  }
  queue.bytes += bytes;
}

void Pacer::Schedule(uint32_t worker, Queue& queue, absl::Time due) {
  Unschedule(worker, queue);
  queue.due = due;
  due_.emplace(due, worker);
}

void Pacer::Unschedule(uint32_t worker, Queue& queue) { due_.erase({queue.due, worker}); }

}  // namespace longwave
