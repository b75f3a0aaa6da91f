#include "server/shard/finish_tile.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace longwave {
template <bool kInto, typename Share>
uint32_t FinishTile(const FinishArgs& args, Share* shares) {
#if LONGWAVE_HAS_AVX512
  if (UsesAvx512()) return FinishTileAvx512<kInto>(args, shares);
#endif
  const MergePlan& plan = *args.plan;
  const double quantum = std::ldexp(1.0, -args.exponent);
  uint32_t nonzero = 0;
  const auto finish = [&](size_t i) {
    const int64_t sum = args.sums[i];
    if (sum == 0) return;  // not sent, its contributions cancel, or a repetition in the list
    nonzero += FinishOne<kInto>(plan, quantum, sum, shares[i], &args.out[i]);
    args.sums[i] = 0;
  };
  if (!kInto) std::fill(args.out.begin(), args.out.end(), 0.0f);
  if (args.list.empty()) {
    for (size_t i = 0; i < args.out.size(); ++i) finish(i);
  } else {
    for (const uint16_t i : args.list) finish(i);
  }
  std::memset(shares, 0, args.out.size() * sizeof(Share));
  return nonzero;
}

template uint32_t FinishTile<false>(const FinishArgs&, uint8_t*);
template uint32_t FinishTile<false>(const FinishArgs&, uint16_t*);
template uint32_t FinishTile<false>(const FinishArgs&, uint32_t*);
template uint32_t FinishTile<false>(const FinishArgs&, uint64_t*);
template uint32_t FinishTile<true>(const FinishArgs&, uint8_t*);
template uint32_t FinishTile<true>(const FinishArgs&, uint16_t*);
template uint32_t FinishTile<true>(const FinishArgs&, uint32_t*);
template uint32_t FinishTile<true>(const FinishArgs&, uint64_t*);

}  // namespace longwave
