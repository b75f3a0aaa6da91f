#ifndef LONGWAVE_TESTS_EMULATION_STREAMS_H_
#define LONGWAVE_TESTS_EMULATION_STREAMS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "cuda_runtime_api.h"

namespace longwave::emulation {

// An event outlives its handle where queued work refers to it. Times are numbers of calls: 0 is
// before the first.
struct EventState {
  uint64_t recorded = 0;   // the last cudaEventRecord
  uint64_t completed = 0;  // the last that its stream has got past
  EmulatedStream* stream = nullptr;

  bool done() const { return completed >= recorded; }
};

// An entry of a stream's queue.
struct Operation {
  uint64_t time;
  std::function<void()> work;         // may be empty
  std::shared_ptr<EventState> event;  // to be waited for before the work, if any
  uint64_t event_time = 0;
};

}  // namespace longwave::emulation

struct EmulatedStream {
  std::deque<longwave::emulation::Operation> queue;
};

struct EmulatedEvent {
  std::shared_ptr<longwave::emulation::EventState> state;
};

namespace longwave::emulation {

// All streams of the device. A null stream is CUDA's default one; the others are non-blocking, so
// that only events order them. Prerequisites of an operation are always queued before it, so every
// wait ends.
class StreamTable {
 public:
  StreamTable();

  bool Has(const EmulatedStream* stream) const;
  EmulatedStream* Create();
  void Destroy(EmulatedStream* stream);  // finishes the stream's work first

  void Enqueue(EmulatedStream* stream, std::function<void()> work);
  void EnqueueRecord(EmulatedStream* stream, EmulatedEvent* event);
  void EnqueueWait(EmulatedStream* stream, EmulatedEvent* event);

  // Runs the awaited work and its prerequisites; with some orders, more.
  void Wait(EmulatedStream* stream);
  void Wait(EmulatedEvent* event);
  void WaitForDefault() { Wait(streams_.front().get()); }
  void WaitForAll();

 private:
  EmulatedStream& Resolve(EmulatedStream* stream) {
    return stream == nullptr ? *streams_.front() : *stream;
  }
  void Append(EmulatedStream* stream, Operation operation);
  void RunThrough(EmulatedStream& stream, uint64_t time);
  void RunFront(EmulatedStream& stream);
  void RunDrawn();

  std::vector<std::unique_ptr<EmulatedStream>> streams_;  // the first is the default one
  uint64_t time_ = 0;
  uint64_t seed_ = 0;
  std::mt19937_64 random_{seed_};
};

StreamTable& Streams();

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_STREAMS_H_
