#include "server/shard/pacer.h"

#include <algorithm>
#include <utility>

namespace longwave {

void Pacer::AwaitRate(uint32_t worker, absl::Time until) {
  Queue& queue = queues_[worker];
  queue.rate_by = until;
  if (!queue.keys.empty()) Schedule(worker, queue, until);
}

void Pacer::SetRate(uint32_t worker, uint64_t bytes_per_s) {
  const auto found = queues_.find(worker);
  const bool awaited =
      found != queues_.end() &&
      std::exchange(found->second.rate_by, absl::InfinitePast()) != absl::InfinitePast();
  if (!awaited && RateOf(worker) == bytes_per_s) return;
  Queue& queue = queues_[worker];
  if (bytes_per_s == 0 && queue.keys.empty()) {
    queues_.erase(worker);
    return;
  }
  queue.bucket = TokenBucket(bytes_per_s, static_cast<uint64_t>(static_cast<double>(bytes_per_s) *
                                                                absl::ToDoubleSeconds(kBurst)));
  if (!queue.keys.empty()) Schedule(worker, queue, absl::InfinitePast());  // the bucket is full
}

uint64_t Pacer::RateOf(uint32_t worker) const {
  const auto found = queues_.find(worker);
  return found == queues_.end() ? 0 : found->second.bucket.rate();
}

void Pacer::Charge(uint32_t worker, uint64_t bytes, absl::Time now) {
  const auto found = queues_.find(worker);
  if (found == queues_.end()) return;
  Queue& queue = found->second;
  queue.bucket.Charge(bytes, now);
  if (!queue.keys.empty()) Schedule(worker, queue, now + WaitOf(queue, now));
}

bool Pacer::Admit(uint32_t worker, const SendFrame& send, absl::Time now) {
  const auto found = queues_.find(worker);
  if (found == queues_.end()) return true;
  Queue& queue = found->second;
  if (queue.keys.empty()) {
    const absl::Duration wait = WaitOf(queue, now);
    if (wait == absl::ZeroDuration()) return true;
    Schedule(worker, queue, now + wait);
  }
  Keep(worker, queue, send, Place::kLast);
  return false;
}

void Pacer::PutBack(uint32_t worker, const SendFrame& send, absl::Time until) {
  Queue& queue = queues_[worker];
  queue.not_before = until;
  Keep(worker, queue, send, Place::kFirst);
  if (!queue.keys.empty()) Schedule(worker, queue, until);
}

std::optional<SendFrame> Pacer::TakeDue(absl::Time now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const uint32_t worker = due_.begin()->second;
    Queue& queue = queues_.find(worker)->second;
    // After a PutBack the due time does not account for the bucket.
    if (const absl::Duration wait = WaitOf(queue, now); wait > absl::ZeroDuration()) {
      Schedule(worker, queue, now + wait);
      continue;
    }
    const auto held = queue.frames.find(queue.keys.front());
    SendFrame due = std::move(held->second);
    queue.asked -= due.cause == SendCause::kRequested;
    queue.frames.erase(held);
    queue.keys.pop_front();
    queue.bytes -= due.frame.wire_bytes(encryption_);
    if (queue.keys.empty()) Unschedule(worker, queue);
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
  return {.frames = found->second.keys.size(), .bytes = found->second.bytes};
}

void Pacer::Forget(uint32_t worker) {
  const auto found = queues_.find(worker);
  if (found == queues_.end()) return;
  Unschedule(worker, found->second);
  queues_.erase(found);
}

absl::Duration Pacer::WaitOf(const Queue& queue, absl::Time now) {
  return std::max({queue.bucket.WaitAt(now), queue.not_before - now, queue.rate_by - now,
                   absl::ZeroDuration()});
}

Pacer::Key Pacer::KeyOf(const SendFrame& send) {
  const FrameName header = send.frame.header();
  return {header.segment, send.cause, header.kind,
          send.cause == SendCause::kRequested ? header.round : 0};
}

void Pacer::Keep(uint32_t worker, Queue& queue, const SendFrame& send, Place place) {
  const Key key = KeyOf(send);
  const uint32_t round = send.frame.header().round();
  const auto held = queue.frames.find(key);
  if (held == queue.frames.end()) {
    if (key.cause == SendCause::kRequested) {
      const auto close = queue.frames.find({.segment = key.segment});
      const bool waits_already = close != queue.frames.end() && key.kind == FrameKind::kMerged &&
                                 close->second.frame.header().round() == round;
      if (waits_already) return;
      if (queue.asked >= kRequestsMax) return void(dropped_.emplace_back(worker, key.segment));
      ++queue.asked;
    }
    queue.frames.emplace(key, SendFrame{{worker}, send.frame, send.cause});
    if (place == Place::kFirst) {
      queue.keys.push_front(key);
    } else {
      queue.keys.push_back(key);
    }
  } else {
    SealedFrame& frame = held->second.frame;
    if (frame.header().round() != round) dropped_.emplace_back(worker, key.segment);
    if (frame.header().round() > round) return;
    queue.bytes -= frame.wire_bytes(encryption_);
    frame = send.frame;
  }
  queue.bytes += send.frame.wire_bytes(encryption_);
}

void Pacer::Schedule(uint32_t worker, Queue& queue, absl::Time due) {
  Unschedule(worker, queue);
  queue.due = due;
  due_.emplace(due, worker);
}

void Pacer::Unschedule(uint32_t worker, Queue& queue) { due_.erase({queue.due, worker}); }

}  // namespace longwave
