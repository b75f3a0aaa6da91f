#ifndef LONGWAVE_KERNELS_CPU_TILE_MATH_H_
#define LONGWAVE_KERNELS_CPU_TILE_MATH_H_

#include <cstdint>

#include "kernels/dct_stage.h"

namespace longwave::cpu {

// The arithmetic of one tile, compiled once per instruction set from the same source. Plain
// arguments only: the functions are the inner loops. All variants give the same bits.

// A tile's place in a flat array (layout.h, Tile) in plain numbers.
struct TilePlace {
  uint64_t offset;
  uint32_t row_stride;
  uint32_t rows, cols;
  uint32_t rows_valid, cols_valid;
};

// The plans of a tile: the columns' (length rows) and the rows' (length cols).
struct TilePlans {
  DctPlanView down;
  DctPlanView along;
  float norm;  // DctNorm
};

// As UpdateKind of ops.h, and in its order.
enum class UpdateRule : uint8_t { kSgd, kSign, kNesterov, kInner, kLocal };

struct UpdateStep {
  UpdateRule rule;
  float eta, mu, keep, beta, scale;
  float* theta;
  float* velocity;
  float* gradient;
  const void* signal_a;
  const void* signal_b;  // may be null
  bool signal_is_bf16;
};

struct TileMath {
  // out[rows, cols] = scale · (a − b), or scale · a where b is null; zero where the tile is
  // padding. a, b: fp32 or bf16.
  void (*gather)(const TilePlace& tile, const void* a, const void* b, bool is_bf16, float scale,
                 float* out);
  // The transform of dct_plan.h, in place; scratch is as large. Elements are data[rows, cols],
  // coefficients data[cols, rows].
  void (*forward)(const TilePlans& plans, float* data, float* scratch);
  void (*inverse)(const TilePlans& plans, float* data, float* scratch);
  // x ← fma(beta, m, x) over n elements. False if any result is NaN or infinite.
  bool (*add_momentum)(uint32_t n, float beta, const float* m, float* x);
  // Sum of squares in double, in an order fixed by n.
  double (*square_sum)(uint32_t n, const float* x);
  // The update of ops.h over the tile's valid elements; u[rows, cols].
  void (*update)(const TilePlace& tile, const UpdateStep& step, const float* u);
  // Σ Mix64(Mix64(flat index) + bits) over the tile's valid elements.
  uint64_t (*hash)(const TilePlace& tile, const float* theta);
};

extern const TileMath kTileMathGeneric;
#ifdef LONGWAVE_CPU_X86
extern const TileMath kTileMathAvx2;    // avx2 and fma
extern const TileMath kTileMathAvx512;  // avx512 f, dq, bw and vl
#endif

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_TILE_MATH_H_
