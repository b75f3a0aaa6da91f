// Compiled for each instruction set, with LONGWAVE_TILE_MATH as the name of the table. simd.h says
// which functions may be called here.
#include "kernels/cpu/tile_math.h"

#include "kernels/cpu/accumulate.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/merge.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/select.h"

#ifndef LONGWAVE_TILE_MATH
#error "LONGWAVE_TILE_MATH must name the table to define, as kTileMathGeneric"
#endif

namespace longwave::cpu {
namespace {

void AddScaled(uint32_t n, float factor, const float* v, float* m) {
  const V f = Broadcast(factor);
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(m + i, Fma(f, Load(v + i), Load(m + i)));
  for (; i < n; ++i) m[i] = FmaOnce(factor, v[i], m[i]);
}

void AddScaledAt(uint32_t n, float factor, const float* v, const uint16_t* indices, float* m) {
  for (uint32_t i = 0; i < n; ++i) m[indices[i]] = FmaOnce(factor, v[i], m[indices[i]]);
}

// A private copy of rng.h's Mix64, which is an inline function of other sources.
LONGWAVE_SIMD uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t Hash(const TilePlace& tile, const float* theta) {
  uint64_t sum = 0;
  for (uint32_t r = 0; r < tile.rows_valid; ++r) {
    const uint64_t at = tile.offset + uint64_t{r} * tile.row_stride;
    for (uint32_t c = 0; c < tile.cols_valid; ++c) {
      uint32_t bits;
      __builtin_memcpy(&bits, theta + at + c, sizeof bits);
      sum += Mix(Mix(at + c) + bits);
    }
  }
  return sum;
}

}  // namespace

extern const TileMath LONGWAVE_TILE_MATH;
const TileMath LONGWAVE_TILE_MATH = {
    Accumulate, SelectTopK,     SquareSum,    AddScaled,    AddScaledAt, Largest,    FitSign,
    FitInt2,    QuantizeNarrow, QuantizeWide, QuantizeBf16, Pack,        ReadNarrow, ReadWide,
    ReadBf16,   Decode,         FinishMerge,  Maxima,       AddCodes,    Hash};

}  // namespace longwave::cpu
