#ifndef LONGWAVE_SERVER_SHARD_FINISH_TILE_H_
#define LONGWAVE_SERVER_SHARD_FINISH_TILE_H_

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

// Where a tile's sums of shares are: in an array of their own,
template <typename Share>
struct SharesBeside {
  Share* of;
};
// or on top of the sums: shares · 2^(64 − bits) + sum, modulo 2^64, with sums of less than 64 −
// bits bits, sign included. A sum without shares is zero.
struct SharesOnTop {
  int bits;  // 1 … 62
};

enum class FinishKind {
  kWrite,       // out ← G
  kAdd,         // out ← out + G, saturated; out has no −0
  kAddAndMark,  // the same, and marks
};

struct FinishArgs {
  const MergePlan* plan;
  int exponent;
  uint64_t* sums;  // of out.size() coefficients, as int64
  std::span<float> out;
  TopKMarks* marks = nullptr;
};

// Step 5 of merge.h for one tile. Leaves sums and shares zero. Returns how many of G are not zero,
// or 0 under kAddAndMark. On top, |G| is at most kMergedMax before it is saturated.
template <FinishKind kKind, typename Shares>
uint32_t FinishTile(const FinishArgs& args, Shares shares);

#if LONGWAVE_HAS_AVX512
// The same with other instructions; called by FinishTile. sums and shares: whole vectors of 64
// bytes, aligned, zero behind out.size().
template <FinishKind kKind, typename Shares>
LONGWAVE_AVX512 uint32_t FinishTileAvx512(const FinishArgs& args, Shares shares);
#endif

#define LONGWAVE_FINISH_TILE(name, kind)                                   \
  template uint32_t name<kind>(const FinishArgs&, SharesOnTop);            \
  template uint32_t name<kind>(const FinishArgs&, SharesBeside<uint8_t>);  \
  template uint32_t name<kind>(const FinishArgs&, SharesBeside<uint16_t>); \
  template uint32_t name<kind>(const FinishArgs&, SharesBeside<uint32_t>); \
  template uint32_t name<kind>(const FinishArgs&, SharesBeside<uint64_t>)
#define LONGWAVE_FINISH_TILES(name)               \
  LONGWAVE_FINISH_TILE(name, FinishKind::kWrite); \
  LONGWAVE_FINISH_TILE(name, FinishKind::kAdd);   \
  LONGWAVE_FINISH_TILE(name, FinishKind::kAddAndMark)

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_FINISH_TILE_H_
