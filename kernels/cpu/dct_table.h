#ifndef LONGWAVE_KERNELS_CPU_DCT_TABLE_H_
#define LONGWAVE_KERNELS_CPU_DCT_TABLE_H_

#include "kernels/cpu/simd.h"
#include "kernels/cpu/tile_math.h"

// The transform by the stages' table, for any shape.

namespace longwave::cpu {
namespace {

// A stage over `width` vectors side by side: element p of vector j is in[p * width + j].
inline void RunStage(const DctPlanView& plan, uint32_t stage, uint32_t width,
                     const float* __restrict in, float* __restrict out) {
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

// All stages over `width` vectors side by side. Returns the array with the result: `data` or
// `other`.
inline float* RunPlan(const DctPlanView& plan, uint32_t width, float* data, float* other) {
  for (uint32_t stage = 0; stage < plan.stage_count; ++stage) {
    if (width == 1) {
      for (uint32_t i = 0; i < plan.length; ++i) {
        other[i] = DctStageOutput(plan, stage, i, data, 1);
      }
    } else {
      RunStage(plan, stage, width, data, other);
    }
    float* swapped = data;
    data = other;
    other = swapped;
  }
  return data;
}

inline void TransposeTable(uint32_t rows, uint32_t cols, const float* __restrict in,
                           float* __restrict out) {
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t c = 0; c < cols; ++c) out[c * rows + r] = in[r * cols + c];
  }
}

inline void Copy(uint32_t n, const float* in, float* out) {
  if (in == out) return;
  for (uint32_t i = 0; i < n; ++i) out[i] = in[i];
}

// `first` over the columns of data[length of first, length of second], then `second` over those of
// the transposed result.
inline void TransformByTable(const DctPlanView& first, const DctPlanView& second, float* data,
                             float* scratch) {
  const uint32_t rows = first.length, cols = second.length;
  float* x = RunPlan(first, cols, data, scratch);
  float* y = x == data ? scratch : data;
  if (rows > 1 && cols > 1) {
    TransposeTable(rows, cols, x, y);
    float* swapped = x;
    x = y;
    y = swapped;
  }
  Copy(rows * cols, RunPlan(second, rows, x, y), data);
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_DCT_TABLE_H_
