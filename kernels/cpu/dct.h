#ifndef LONGWAVE_KERNELS_CPU_DCT_H_
#define LONGWAVE_KERNELS_CPU_DCT_H_

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

template <uint32_t kRows, uint32_t kCols>
__attribute__((noinline)) void ForwardInPlace(float norm, float* data, float* scratch) {
  ForwardColumns<kRows, kCols>(
      norm, [&](auto r, uint32_t c) LONGWAVE_BODY { return Load(data + r.value * kCols + c); },
      scratch);
  ForwardRows<kRows, kCols>(scratch, data, data);
}

struct RowNumbers {
  uint8_t at[128];
};
constexpr RowNumbers AllRows() {
  RowNumbers rows = {};
  for (uint32_t i = 0; i < 128; ++i) rows.at[i] = static_cast<uint8_t>(i);
  return rows;
}
constexpr RowNumbers kAllRows = AllRows();

template <uint32_t kRows, uint32_t kCols>
__attribute__((noinline)) void InverseInPlace(float* data, float* scratch) {
  InverseRows<kRows, kCols>(data, kRows, kAllRows.at, scratch);
  InverseColumns<kRows, kCols>(scratch, [&](auto r, uint32_t c, V v) LONGWAVE_BODY {
    Store(data + r.value * kCols + c, v);
  });
}

inline bool IsShape(const TilePlans& plans, uint32_t rows, uint32_t cols) {
  return plans.down.length == rows && plans.along.length == cols;
}

inline void Forward(const TilePlans& plans, float* data, float* scratch) {
  if (IsShape(plans, 64, 64)) return ForwardInPlace<64, 64>(plans.norm, data, scratch);
  if (IsShape(plans, 32, 128)) return ForwardInPlace<32, 128>(plans.norm, data, scratch);
  if (IsShape(plans, 128, 32)) return ForwardInPlace<128, 32>(plans.norm, data, scratch);
  Scale(plans.down.length * plans.along.length, plans.norm, data);
  TransformByTable(plans.down, plans.along, data, scratch);
}

// Of coefficients that are already times the norm.
inline void InverseOfScaled(const TilePlans& plans, float* data, float* scratch) {
  if (IsShape(plans, 64, 64)) return InverseInPlace<64, 64>(data, scratch);
  if (IsShape(plans, 32, 128)) return InverseInPlace<32, 128>(data, scratch);
  if (IsShape(plans, 128, 32)) return InverseInPlace<128, 32>(data, scratch);
  TransformByTable(plans.along, plans.down, data, scratch);
}

inline void Inverse(const TilePlans& plans, float* data, float* scratch) {
  Scale(plans.down.length * plans.along.length, plans.norm, data);
  InverseOfScaled(plans, data, scratch);
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_DCT_H_
