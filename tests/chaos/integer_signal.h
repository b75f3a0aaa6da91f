#ifndef LONGWAVE_TESTS_CHAOS_INTEGER_SIGNAL_H_
#define LONGWAVE_TESTS_CHAOS_INTEGER_SIGNAL_H_

#include <cstdint>

#include "common/base/rng.h"

namespace longwave {

// What the workers of the chaos test learn in a step: integers that anybody can write down. All
// sums of them that come about, and their means over up to four senders, are exact in fp32.

inline constexpr uint32_t kSignalWorkersMax = 4;
// Tokens behind a step: one sequence of two. A push without a step behind it, which closes a round
// that nobody else closes, has weight 1.
inline constexpr uint64_t kSignalWeight = 2;
// Divisible by 1 to 8, so that a mean over senders of such weights is an integer.
inline constexpr int64_t kSignalUnit = 840;
inline constexpr uint64_t kSignalTile = 4096;
// Of each tile, element i < kSignalMarkers is moved by step i alone: from what a worker has sent
// and kept one reads off which steps are in it, and that each is in it once.
inline constexpr uint64_t kSignalMarkers = 2048;

inline constexpr int64_t kSignalMark = 8 * kSignalUnit;

// How far step `step` of a worker moves an element of the flat array.
inline int64_t SignalOf(uint32_t worker, uint64_t step, uint64_t element) {
  const uint64_t place = element % kSignalTile;
  if (place < kSignalMarkers) return place == step ? kSignalMark : 0;
  const uint64_t word = Mix64(Mix64(element) + step * kSignalWorkersMax + worker);
  return kSignalUnit * (static_cast<int64_t>(word % 7) - 3);
}
}  // namespace longwave

#endif  // LONGWAVE_TESTS_CHAOS_INTEGER_SIGNAL_H_
