#ifndef LONGWAVE_TESTS_CHAOS_INTEGER_SIGNAL_H_
#define LONGWAVE_TESTS_CHAOS_INTEGER_SIGNAL_H_

#include <cstdint>

#include "common/base/rng.h"

namespace longwave {

// The signals of the chaos test's workers: integers that are easy to compute. All their sums, and
// their means over up to four senders, are exact in fp32.

inline constexpr uint32_t kSignalWorkersMax = 4;
// Tokens of a step: one sequence of two. A push without a step, which closes a round that no other
// worker closes, has weight 1.
inline constexpr uint64_t kSignalWeight = 2;
// Divisible by 1 to 8, so a mean over senders of such weights is an integer.
inline constexpr int64_t kSignalUnit = 840;
inline constexpr uint64_t kSignalTile = 4096;
// In each tile only step i moves element i < kSignalMarkers. A worker's contributions and residual
// therefore show which steps are included, and that each is included once.
inline constexpr uint64_t kSignalMarkers = 2048;

inline constexpr int64_t kSignalMark = 8 * kSignalUnit;

// The change of an element of the flat array by a worker's step.
inline int64_t SignalOf(uint32_t worker, uint64_t step, uint64_t element) {
  const uint64_t place = element % kSignalTile;
  if (place < kSignalMarkers) return place == step ? kSignalMark : 0;
  const uint64_t word = Mix64(Mix64(element) + step * kSignalWorkersMax + worker);
  return kSignalUnit * (static_cast<int64_t>(word % 7) - 3);
}
}  // namespace longwave

#endif  // LONGWAVE_TESTS_CHAOS_INTEGER_SIGNAL_H_
