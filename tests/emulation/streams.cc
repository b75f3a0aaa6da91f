#include "tests/emulation/streams.h"

#include <algorithm>
#include <utility>

#include "tests/emulation/orders.h"

namespace longwave::emulation {

StreamTable::StreamTable() { streams_.push_back(std::make_unique<EmulatedStream>()); }

bool StreamTable::Has(const EmulatedStream* stream) const {
  return stream == nullptr || std::any_of(streams_.begin(), streams_.end(),
                                          [&](const auto& mine) { return mine.get() == stream; });
}

EmulatedStream* StreamTable::Create() {
  streams_.push_back(std::make_unique<EmulatedStream>());
  return streams_.back().get();
}

void StreamTable::Destroy(EmulatedStream* stream) {
  Wait(stream);
  std::erase_if(streams_, [&](const auto& mine) { return mine.get() == stream; });
}

void StreamTable::Append(EmulatedStream* to, Operation operation) {
  EmulatedStream& stream = Resolve(to);
  operation.time = ++time_;
  stream.queue.push_back(std::move(operation));
  switch (stream_order().kind) {
    case StreamOrder::Kind::kLazy:
      break;
    case StreamOrder::Kind::kEager:
      RunThrough(stream, time_);
      break;
    case StreamOrder::Kind::kDrawn:
      RunDrawn();
      break;
  }
}

void StreamTable::Enqueue(EmulatedStream* stream, std::function<void()> work) {
  Append(stream, {0, std::move(work), nullptr});
}

void StreamTable::EnqueueRecord(EmulatedStream* stream, EmulatedEvent* event) {
  EventState& state = *event->state;
  const uint64_t time = time_ + 1;  // of this operation
  state.recorded = time;
  state.stream = &Resolve(stream);
  Append(stream, {0, [state = event->state, time] { state->completed = time; }, nullptr});
}

void StreamTable::EnqueueWait(EmulatedStream* stream, EmulatedEvent* event) {
  if (event->state->recorded == 0) return;  // nothing to wait for, says CUDA
  Append(stream, {0, nullptr, event->state, event->state->recorded});
}

// Everything of the stream that was queued up to `time`.
void StreamTable::RunThrough(EmulatedStream& stream, uint64_t time) {
  while (!stream.queue.empty() && stream.queue.front().time <= time) RunFront(stream);
}

void StreamTable::RunFront(EmulatedStream& stream) {
  const Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (operation.event != nullptr && operation.event->completed < operation.event_time) {
    RunThrough(*operation.event->stream, operation.event_time);
  }
  if (operation.work) operation.work();
}

void StreamTable::RunDrawn() {
  if (seed_ != stream_order().seed) {
    seed_ = stream_order().seed;
    random_.seed(seed_);
  }
  while (random_() % 2 == 0) {
    EmulatedStream& stream = *streams_[random_() % streams_.size()];
    if (!stream.queue.empty()) RunThrough(stream, stream.queue.front().time);
  }
}

void StreamTable::Wait(EmulatedStream* stream) {
  if (stream_order().kind == StreamOrder::Kind::kDrawn) RunDrawn();
  RunThrough(Resolve(stream), time_);
}

void StreamTable::Wait(EmulatedEvent* event) {
  if (stream_order().kind == StreamOrder::Kind::kDrawn) RunDrawn();
  const EventState& state = *event->state;
  if (!state.done()) RunThrough(*state.stream, state.recorded);
}

void StreamTable::WaitForAll() {
  if (stream_order().kind == StreamOrder::Kind::kDrawn) RunDrawn();
  // The youngest first: not the order in which they were given work.
  for (auto stream = streams_.rbegin(); stream != streams_.rend(); ++stream) {
    RunThrough(**stream, time_);
  }
}

StreamTable& Streams() {
  static StreamTable* const table = new StreamTable;
  return *table;
}

}  // namespace longwave::emulation
