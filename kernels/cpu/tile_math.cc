// Compiled once per instruction set, with LONGWAVE_TILE_MATH naming the table that this copy
// defines. Only functions with internal linkage, and nothing from the standard library: an inline
// function shared with other sources could end up in the program in this copy's instructions.
#include "kernels/cpu/tile_math.h"

#ifndef LONGWAVE_TILE_MATH
#error "LONGWAVE_TILE_MATH must name the table to define, as kTileMathGeneric"
#endif

// The loops below touch each element once, at one index; arrays that overlap are equal.
#if defined(__clang__)
#define LONGWAVE_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define LONGWAVE_IVDEP _Pragma("GCC ivdep")
#endif

namespace longwave::cpu {
namespace {

constexpr uint32_t kTileSizeMax = 4096;  // of codec.h, which this source may not include
constexpr uint32_t kLanes = 16;  // partial sums: independent of the width of the machine's vectors

// One stage over `width` vectors side by side: element p of vector j is in[p * width + j].
// kWidth = 0: width is known at run time only.
template <uint32_t kWidth>
void RunStage(const DctPlanView& plan, uint32_t stage, uint32_t width_given,
              const float* __restrict in, float* __restrict out) {
  const uint32_t width = kWidth == 0 ? width_given : kWidth;
  const uint32_t* begin = plan.row_begin + stage * (plan.length + 1);
  for (uint32_t i = 0; i < plan.length; ++i, out += width) {
    uint32_t t = begin[i];
    const uint32_t count = begin[i + 1] - t;
    const float c0 = plan.coefficient[t];
    const float* x0 = in + plan.index[t] * width;
    if (count == 2) {
      const float c1 = plan.coefficient[t + 1];
      const float* x1 = in + plan.index[t + 1] * width;
      for (uint32_t j = 0; j < width; ++j) out[j] = FmaOnce(c1, x1[j], MulOnce(c0, x0[j]));
      continue;
    }
    for (uint32_t j = 0; j < width; ++j) out[j] = MulOnce(c0, x0[j]);
    for (uint32_t last = t + count; ++t < last;) {
      const float c = plan.coefficient[t];
      const float* x = in + plan.index[t] * width;
      for (uint32_t j = 0; j < width; ++j) out[j] = FmaOnce(c, x[j], out[j]);
    }
  }
}

// All stages over `width` vectors side by side. Returns where the result is: `data` or `other`.
float* RunPlan(const DctPlanView& plan, uint32_t width, float* data, float* other) {
  for (uint32_t stage = 0; stage < plan.stage_count; ++stage) {
    if (width == 64) {
      RunStage<64>(plan, stage, width, data, other);
    } else if (width == 1) {
      for (uint32_t i = 0; i < plan.length; ++i) {
        other[i] = DctStageOutput(plan, stage, i, data, 1);
      }
    } else {
      RunStage<0>(plan, stage, width, data, other);
    }
    float* swapped = data;
    data = other;
    other = swapped;
  }
  return data;
}

// out[cols, rows] = inᵀ, in blocks that keep both sides in a few cache lines.
void Transpose(uint32_t rows, uint32_t cols, const float* __restrict in, float* __restrict out) {
  constexpr uint32_t kBlock = 16;
  if (rows % kBlock != 0 || cols % kBlock != 0) {
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t c = 0; c < cols; ++c) out[c * rows + r] = in[r * cols + c];
    }
    return;
  }
  for (uint32_t r0 = 0; r0 < rows; r0 += kBlock) {
    for (uint32_t c0 = 0; c0 < cols; c0 += kBlock) {
      for (uint32_t c = c0; c < c0 + kBlock; ++c) {
        for (uint32_t r = r0; r < r0 + kBlock; ++r) out[c * rows + r] = in[r * cols + c];
      }
    }
  }
}

void Copy(uint32_t n, const float* in, float* out) {
  if (in == out) return;
  for (uint32_t i = 0; i < n; ++i) out[i] = in[i];
}

void Scale(uint32_t n, float factor, float* x) {
  for (uint32_t i = 0; i < n; ++i) x[i] = MulOnce(factor, x[i]);
}

void Forward(const TilePlans& plans, float* data, float* scratch) {
  const uint32_t rows = plans.down.length, cols = plans.along.length;
  Scale(rows * cols, plans.norm, data);
  float* x = RunPlan(plans.down, cols, data, scratch);
  float* y = x == data ? scratch : data;
  if (rows > 1 && cols > 1) {
    Transpose(rows, cols, x, y);
    float* swapped = x;
    x = y;
    y = swapped;
  }
  Copy(rows * cols, RunPlan(plans.along, rows, x, y), data);
}

void Inverse(const TilePlans& plans, float* data, float* scratch) {
  const uint32_t rows = plans.down.length, cols = plans.along.length;
  Scale(rows * cols, plans.norm, data);
  float* x = RunPlan(plans.along, rows, data, scratch);
  float* y = x == data ? scratch : data;
  if (rows > 1 && cols > 1) {
    Transpose(cols, rows, x, y);
    float* swapped = x;
    x = y;
    y = swapped;
  }
  Copy(rows * cols, RunPlan(plans.down, cols, x, y), data);
}

struct Fp32 {
  const float* at;
  explicit Fp32(const void* array, uint64_t offset)
      : at(static_cast<const float*>(array) + offset) {}
  float operator[](uint32_t i) const { return at[i]; }
};

struct Bf16 {
  const uint16_t* at;
  explicit Bf16(const void* array, uint64_t offset)
      : at(static_cast<const uint16_t*>(array) + offset) {}
  float operator[](uint32_t i) const {
    const uint32_t bits = static_cast<uint32_t>(at[i]) << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
};

template <typename Array>
void GatherTile(const TilePlace& tile, const void* a, const void* b, float scale, float* out) {
  for (uint32_t r = 0; r < tile.rows; ++r, out += tile.cols) {
    const uint32_t valid = r < tile.rows_valid ? tile.cols_valid : 0;
    const uint64_t offset = tile.offset + uint64_t{r} * tile.row_stride;
    if (valid > 0 && b == nullptr) {
      const Array x(a, offset);
      LONGWAVE_IVDEP
      for (uint32_t c = 0; c < valid; ++c) out[c] = scale * x[c];
    } else if (valid > 0) {
      const Array x(a, offset), y(b, offset);
      LONGWAVE_IVDEP
      for (uint32_t c = 0; c < valid; ++c) out[c] = scale * (x[c] - y[c]);
    }
    for (uint32_t c = valid; c < tile.cols; ++c) out[c] = 0;
  }
}

void Gather(const TilePlace& tile, const void* a, const void* b, bool is_bf16, float scale,
            float* out) {
  is_bf16 ? GatherTile<Bf16>(tile, a, b, scale, out) : GatherTile<Fp32>(tile, a, b, scale, out);
}

bool AddMomentum(uint32_t n, float beta, const float* __restrict m, float* __restrict x) {
  uint32_t nonfinite = 0;
  for (uint32_t i = 0; i < n; ++i) {
    x[i] = FmaOnce(beta, m[i], x[i]);
    // x − x is zero unless x is an infinity or a NaN.
    nonfinite |= static_cast<uint32_t>(x[i] - x[i] != 0.0f);
  }
  return nonfinite == 0;
}

double SquareSum(uint32_t n, const float* x) {
  double partial[kLanes] = {};
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const double v = x[i + lane];
      partial[lane] += v * v;
    }
  }
  for (uint32_t lane = 0; i < n; ++i, ++lane) {
    const double v = x[i];
    partial[lane] += v * v;
  }
  double sum = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) sum += partial[lane];
  return sum;
}

// One row of a tile under one rule. kDecay: θ ← θ·keep comes first.
template <UpdateRule kRule, bool kDecay>
void UpdateRow(const UpdateStep& step, uint64_t at, uint32_t count, const float* u) {
  float* theta = step.theta + at;
  const float eta = step.eta, mu = step.mu, keep = step.keep;
  if constexpr (kRule == UpdateRule::kNesterov) {
    float* velocity = step.velocity + at;
    LONGWAVE_IVDEP
    for (uint32_t c = 0; c < count; ++c) {
      const float x = kDecay ? theta[c] * keep : theta[c];
      const float v = FmaOnce(mu, velocity[c], u[c]);
      velocity[c] = v;
      theta[c] = FmaOnce(-eta, FmaOnce(mu, v, u[c]), x);
    }
  } else if constexpr (kRule == UpdateRule::kLocal) {
    const float beta = step.beta;
    float s[kTileSizeMax];
    const TilePlace row = {at, 0, 1, count, 1, count};
    Gather(row, step.signal_a, step.signal_b, step.signal_is_bf16, step.scale, s);
    for (uint32_t c = 0; c < count; ++c) {
      const float x = kDecay ? theta[c] * keep : theta[c];
      theta[c] = FmaOnce(-eta, FmaOnce(beta, u[c], s[c]), x);
    }
  } else {
    LONGWAVE_IVDEP
    for (uint32_t c = 0; c < count; ++c) {
      const float x = kDecay ? theta[c] * keep : theta[c];
      if constexpr (kRule == UpdateRule::kSgd) {
        theta[c] = FmaOnce(-eta, u[c], x);
      } else {
        const float down = x - eta, up = x + eta;
        theta[c] = u[c] > 0 ? down : (u[c] < 0 ? up : x);
      }
    }
  }
}

template <UpdateRule kRule>
void UpdateTile(const TilePlace& tile, const UpdateStep& step, const float* u) {
  for (uint32_t r = 0; r < tile.rows_valid; ++r, u += tile.cols) {
    const uint64_t at = tile.offset + uint64_t{r} * tile.row_stride;
    if (step.keep == 1.0f) {
      UpdateRow<kRule, false>(step, at, tile.cols_valid, u);
    } else {
      UpdateRow<kRule, true>(step, at, tile.cols_valid, u);
    }
  }
}

void Update(const TilePlace& tile, const UpdateStep& step, const float* u) {
  switch (step.rule) {
    case UpdateRule::kSgd:
      return UpdateTile<UpdateRule::kSgd>(tile, step, u);
    case UpdateRule::kSign:
      return UpdateTile<UpdateRule::kSign>(tile, step, u);
    case UpdateRule::kNesterov:
      return UpdateTile<UpdateRule::kNesterov>(tile, step, u);
    case UpdateRule::kLocal:
      return UpdateTile<UpdateRule::kLocal>(tile, step, u);
    case UpdateRule::kInner:
      break;
  }
  for (uint32_t r = 0; r < tile.rows_valid; ++r, u += tile.cols) {
    Copy(tile.cols_valid, u, step.gradient + tile.offset + uint64_t{r} * tile.row_stride);
  }
}

uint64_t Hash(const TilePlace& tile, const float* theta) {
  uint64_t sum = 0;
  for (uint32_t r = 0; r < tile.rows_valid; ++r) {
    const uint64_t at = tile.offset + uint64_t{r} * tile.row_stride;
    for (uint32_t c = 0; c < tile.cols_valid; ++c) {
      uint32_t bits;
      __builtin_memcpy(&bits, theta + at + c, sizeof bits);
      sum += Mix64(Mix64(at + c) + bits);
    }
  }
  return sum;
}

}  // namespace

extern const TileMath LONGWAVE_TILE_MATH;
const TileMath LONGWAVE_TILE_MATH = {Gather,    Forward, Inverse, AddMomentum,
                                     SquareSum, Update,  Hash};

}  // namespace longwave::cpu
