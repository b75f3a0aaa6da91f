#ifndef LONGWAVE_TESTS_EMULATION_ORDERS_H_
#define LONGWAVE_TESTS_EMULATION_ORDERS_H_

#include <cstdint>

namespace longwave::emulation {

// Choices that CUDA leaves open. Correct code gives the same results under every choice; a missing
// barrier or wait gives other results under one of them.
//
// From the environment: LONGWAVE_EMULATION_ORDERS = THREADS,STREAMS, as ascending,lazy (the
// default).

// The order in which the threads of a block run from one barrier to the next, and the blocks of a
// grid: ascending (the default), descending, or a number, the seed of an order drawn anew at every
// barrier.
struct ThreadOrder {
  enum class Kind { kAscending, kDescending, kShuffled };
  Kind kind = Kind::kAscending;
  uint64_t seed = 0;
};

// When queued work runs:
//   lazy (the default): when the host waits for it, and then only what it waits for. A forgotten
//     wait reads what was there before; a pinned buffer written too early arrives with new
//     contents.
//   eager: when it is queued. A buffer filled after the copy from it was queued arrives empty.
//   a number: the seed of a draw, at each call, of how much of what may run does.
struct StreamOrder {
  enum class Kind { kLazy, kEager, kDrawn };
  Kind kind = Kind::kLazy;
  uint64_t seed = 0;
};

ThreadOrder thread_order();
StreamOrder stream_order();
// For the rest of the process. No work may be queued.
void Set(ThreadOrder order);
void Set(StreamOrder order);

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_ORDERS_H_
