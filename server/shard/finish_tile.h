#ifndef LONGWAVE_SERVER_SHARD_FINISH_TILE_H_
#define LONGWAVE_SERVER_SHARD_FINISH_TILE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

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

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_FINISH_TILE_H_
