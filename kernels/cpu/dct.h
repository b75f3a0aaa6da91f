#ifndef LONGWAVE_KERNELS_CPU_DCT_H_
#define LONGWAVE_KERNELS_CPU_DCT_H_

#include "kernels/cpu/dct_run.h"
#include "kernels/cpu/dct_table.h"
#include "kernels/cpu/dct_tile.h"
#include "kernels/cpu/tile_math.h"

// The transform of any tile in memory.

namespace longwave::cpu {
namespace {

inline void Scale(uint32_t n, float factor, float* x) {
  for (uint32_t i = 0; i < RoundUp(n, kLanes); i += kLanes) {
    Store(x + i, Lanes::Mul(factor, Load(x + i)));
  }
}

// Prefetches only a line that is cached already.
LONGWAVE_SIMD Ahead NothingAhead(const float* data) {
  const auto* at = reinterpret_cast<const char*>(data);
  return {at, nullptr, 0, 0};
}

// Prefetches elements of the tile at `next`; nothing unless its rows are those of a 64 × 64 tile or
// a run.
LONGWAVE_SIMD Ahead AheadOf(const TilePlace& next, const float* a, const float* b,
                            const float* data) {
  if (next.rows != 64 && SizeOf(next) != kTileSizeMax) return NothingAhead(data);
  const uint64_t stride = next.rows == 1 ? 64 : next.row_stride;
  return {reinterpret_cast<const char*>(a + next.offset),
          b == nullptr ? nullptr : reinterpret_cast<const char*>(b + next.offset),
          stride * sizeof(float), 16 * sizeof(float)};
}

template <uint32_t kRows, uint32_t kCols>
inline void ForwardInPlace(float norm, const Ahead& ahead, float* data, float* scratch) {
  FromMemory<kCols> from = {data, norm};
  ForwardColumns<kRows, kCols>(from, ahead, scratch);
  Plainly<kRows> to = {data};
  ForwardRows<kRows, kCols>(scratch, ahead, to);
}

template <uint32_t kRows, uint32_t kCols>
inline void InverseInPlace(const Ahead& ahead, float* data, float* scratch) {
  InverseRows<kRows, kCols>(data, ahead, scratch);
  InverseColumns<kRows, kCols>(scratch, ahead, data);
}

inline bool IsShape(const TilePlans& plans, uint32_t rows, uint32_t cols) {
  return plans.down.length == rows && plans.along.length == cols;
}

// Whether the tile is a run whose length dct_run.h covers.
inline bool IsLongRun(const TilePlans& plans) {
  const uint32_t n = plans.along.length;
  return plans.down.length == 1 && n > kNode && (n & (n - 1)) == 0;
}

template <bool kForward>
inline void TransformLongRun(const TilePlans& plans, float* data, float* scratch) {
  TransformRun<kForward>(TrailingZeros(plans.along.length), plans.rotations, data, scratch);
}

// The transform of dct_plan.h in place: elements data[rows, cols] to coefficients data[cols, rows].
// scratch is as large, both with TileWork's room.
inline void Forward(const TilePlans& plans, const Ahead& ahead, float* data, float* scratch) {
  const float norm = plans.norm;
  if (IsShape(plans, 64, 64)) {
    return ForwardInPlace<64, 64>(norm, ahead, data, scratch);
  }
  if (IsShape(plans, 32, 128)) {
    return ForwardInPlace<32, 128>(norm, ahead, data, scratch);
  }
  if (IsShape(plans, 128, 32)) {
    return ForwardInPlace<128, 32>(norm, ahead, data, scratch);
  }
  Scale(plans.down.length * plans.along.length, norm, data);
  if (IsLongRun(plans)) return TransformLongRun<true>(plans, data, scratch);
  TransformByTable(plans.down, plans.along, data, scratch);
}

// The inverse for coefficients that are already times the norm.
inline void InverseOfScaled(const TilePlans& plans, const Ahead& ahead, float* data,
                            float* scratch) {
  if (IsShape(plans, 64, 64)) return InverseInPlace<64, 64>(ahead, data, scratch);
  if (IsShape(plans, 32, 128)) return InverseInPlace<32, 128>(ahead, data, scratch);
  if (IsShape(plans, 128, 32)) return InverseInPlace<128, 32>(ahead, data, scratch);
  if (IsLongRun(plans)) return TransformLongRun<false>(plans, data, scratch);
  TransformByTable(plans.along, plans.down, data, scratch);
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_DCT_H_
