#ifndef LONGWAVE_SERVER_SHARD_FINISH_TILE_H_
#define LONGWAVE_SERVER_SHARD_FINISH_TILE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "common/wire/isa.h"
#include "server/shard/merge.h"
#include "server/shard/tile_merger.h"

namespace longwave {

// Calls f with `memory` as an array of the smallest type that holds `share_sum`.
template <typename F>
auto WithShares(uint64_t share_sum, std::byte* memory, const F& f) {
  if (share_sum <= std::numeric_limits<uint8_t>::max()) {
    return f(reinterpret_cast<uint8_t*>(memory));
  }
  if (share_sum <= std::numeric_limits<uint16_t>::max()) {
    return f(reinterpret_cast<uint16_t*>(memory));
  }
  if (share_sum <= std::numeric_limits<uint32_t>::max()) {
    return f(reinterpret_cast<uint32_t*>(memory));
  }
  return f(reinterpret_cast<uint64_t*>(memory));
}

struct FinishArgs {
  const MergePlan* plan;
  int exponent;
  // All coefficients that were sent, in any order, some more than once; empty: any may have been.
  std::span<const uint16_t> list;
  int64_t* sums;  // of out.size() coefficients
  std::span<float> out;
};

// Step 5 of merge.h for one tile: out ← G, or with kInto out ← out + G, saturated. Leaves sums and
// shares zero. Returns how many of G are not zero.
template <bool kInto, typename Share>
uint32_t FinishTile(const FinishArgs& args, Share* shares);

#if LONGWAVE_HAS_AVX512
// The same with other instructions; called by FinishTile. sums and shares: whole vectors of 64
// bytes, aligned, zero behind out.size().
template <bool kInto, typename Share>
uint32_t FinishTileAvx512(const FinishArgs& args, Share* shares);
#endif

inline float Saturate(double value) {
  const float clamped =
      static_cast<float>(std::clamp(value, -double{kMergedMax}, double{kMergedMax}));
  return clamped + 0.0f;  // −0 becomes +0: one number, one encoding
}

// One coefficient; its sum is not zero. Returns whether G is not zero.
template <bool kInto>
bool FinishOne(const MergePlan& plan, double quantum, int64_t sum, uint64_t shares, float* out) {
  const double divisor = std::max(static_cast<double>(shares * plan.unit), plan.floor);
  const float g = Saturate(static_cast<double>(sum) * quantum / divisor);
  *out = kInto ? Saturate(double{*out} + double{g}) : g;
  return g != 0;
}

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_FINISH_TILE_H_
