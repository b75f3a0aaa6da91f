#ifndef LONGWAVE_KERNELS_CPU_DCT_TILE_H_
#define LONGWAVE_KERNELS_CPU_DCT_TILE_H_

#include "kernels/cpu/dct_steps.h"

// The transform of dct_plan.h of a whole tile of kRows × kCols, both powers of two and multiples of
// kLanes: columns side by side in the lanes, then rows, with one transposition between.

namespace longwave::cpu {
namespace {

// Elements: load(Index<r>, c) gives kLanes of row r from column c on. between[kRows, kCols].
template <uint32_t kRows, uint32_t kCols, class From>
LONGWAVE_SIMD void ForwardColumns(float norm, const From& load, float* between) {
  for (uint32_t c = 0; c < kCols; c += kLanes) {
    Steps2<kRows>::Forward([&](auto r) LONGWAVE_BODY { return Lanes::Mul(norm, load(r, c)); },
                           [&](auto i, V v)
                               LONGWAVE_BODY { Store(between + i.value * kCols + c, v); });
  }
}

// out[kCols, kRows]: coefficients.
template <uint32_t kRows, uint32_t kCols>
__attribute__((noinline)) void ForwardRows(const float* between, float* out) {
  Waiting<kCols> across;
  for (uint32_t i = 0; i < kRows; i += kLanes) {
    for (uint32_t c = 0; c < kCols; c += kLanes) {
      V block[kLanes];
      TransposeBlock(between + i * kCols + c, kCols, block);
      Unroll<kLanes>([&](auto k) LONGWAVE_BODY { across.Set(c + k.value, block[k.value]); });
    }
    Reload();
    Steps2<kCols>::Forward([&](auto c) LONGWAVE_BODY { return across.Get(c.value); },
                           [&](auto j, V v) LONGWAVE_BODY { Store(out + j.value * kRows + i, v); });
  }
}

// in[kCols, kRows]: coefficients, already times the norm. between[kRows, kCols].
template <uint32_t kRows, uint32_t kCols>
__attribute__((noinline)) void InverseRows(const float* in, float* between) {
  Waiting<kCols> across;
  for (uint32_t i = 0; i < kRows; i += kLanes) {
    Steps2<kCols>::Inverse([&](auto j) LONGWAVE_BODY { return Load(in + j.value * kRows + i); },
                           [&](auto c, V v) LONGWAVE_BODY { across.Set(c.value, v); });
    Reload();
    for (uint32_t c = 0; c < kCols; c += kLanes) {
      V block[kLanes];
      TransposeBlock(across.at + c * kLanes, kLanes, block);
      Unroll<kLanes>([&](auto k) LONGWAVE_BODY {
        Store(between + (i + k.value) * kCols + c, block[k.value]);
      });
    }
  }
}

// Elements: store(Index<r>, c, V) takes kLanes of row r from column c on.
template <uint32_t kRows, uint32_t kCols, class To>
LONGWAVE_SIMD void InverseColumns(const float* between, const To& store) {
  for (uint32_t c = 0; c < kCols; c += kLanes) {
    Steps2<kRows>::Inverse([&](auto i)
                               LONGWAVE_BODY { return Load(between + i.value * kCols + c); },
                           [&](auto r, V v) LONGWAVE_BODY { store(r, c, v); });
  }
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_DCT_TILE_H_
