#include "server/shard/finish_tile.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace longwave {
namespace {

float Saturate(double value) {
  const float clamped =
      static_cast<float>(std::clamp(value, -double{kMergedMax}, double{kMergedMax}));
  return clamped + 0.0f;  // −0 becomes +0: one number, one encoding
}

struct Sum {
  int64_t value;
  uint64_t shares;
};

Sum Take(uint64_t* word, size_t, SharesOnTop shares) {
  const int bits = shares.bits;
  const uint64_t from = std::exchange(*word, 0);
  return {static_cast<int64_t>(from << bits) >> bits,
          (from + (uint64_t{1} << (63 - bits))) >> (64 - bits)};
}

template <typename Share>
Sum Take(uint64_t* word, size_t i, SharesBeside<Share> shares) {
  return {static_cast<int64_t>(std::exchange(*word, 0)), std::exchange(shares.of[i], Share{0})};
}

}  // namespace

template <FinishKind kKind, typename Shares>
uint32_t FinishTile(const FinishArgs& args, Shares shares) {
#if LONGWAVE_HAS_AVX512
  if (UsesAvx512()) return FinishTileAvx512<kKind>(args, shares);
#endif
  const MergePlan& plan = *args.plan;
  const double quantum = std::ldexp(1.0, -args.exponent);
  uint32_t nonzero = 0;
  for (size_t i = 0; i < args.out.size(); ++i) {
    const Sum sum = Take(&args.sums[i], i, shares);
    float& out = args.out[i];
    if (kKind == FinishKind::kWrite) out = 0;
    if (sum.value == 0) continue;  // not sent, or its contributions cancel
    const double divisor = std::max(static_cast<double>(sum.shares * plan.unit), plan.floor);
    const float g = Saturate(static_cast<double>(sum.value) * quantum / divisor);
    out = kKind == FinishKind::kWrite ? g : Saturate(double{out} + double{g});
    nonzero += g != 0;
  }
  return nonzero;
}

LONGWAVE_FINISH_TILES(FinishTile);

}  // namespace longwave
