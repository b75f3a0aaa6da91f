#ifndef LONGWAVE_KERNELS_DCT_STAGE_H_
#define LONGWAVE_KERNELS_DCT_STAGE_H_

#include <cstdint>

#include "common/base/rng.h"

namespace longwave {

// A cosine transform as a sequence of sparse square matrices ("stages"), in plain arrays that are
// the same on the host and on a GPU. Output i of a stage over the vector `in` is defined as
//
//   y = c[0] · in[p[0]]                     rounded
//   y = fma(c[t], in[p[t]], y)              rounded once, for t = 1, 2, … in the table's order
//
// with the terms t of row i in ascending p. One term with c = 1 is a copy. The expression fully
// defines the transform's rounding: a backend that evaluates each output so gives the same bits as
// any other, in any order of the outputs.
struct DctPlanView {
  uint32_t length = 0;
  uint32_t stage_count = 0;
  const uint32_t* row_begin = nullptr;  // [stage_count, length + 1], into the two below
  const uint16_t* index = nullptr;      // p
  const float* coefficient = nullptr;   // c
};

#ifdef __CUDA_ARCH__
__device__ static inline float FmaOnce(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ static inline float MulOnce(float a, float b) { return __fmul_rn(a, b); }
#else
// The builtin, not std::fma: sources that are compiled for each instruction set must not emit a
// shared inline function, whose copy the linker could take from a set that this processor lacks.
static inline float FmaOnce(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float MulOnce(float a, float b) { return a * b; }
#endif

// Output `row` of stage `stage`; element p of the vector is in[p * stride].
LONGWAVE_HOST_DEVICE static inline float DctStageOutput(const DctPlanView& plan, uint32_t stage,
                                                        uint32_t row, const float* in,
                                                        uint32_t stride) {
  const uint32_t* begin = plan.row_begin + stage * (plan.length + 1) + row;
  uint32_t t = begin[0];
  const uint32_t end = begin[1];
  float y = MulOnce(plan.coefficient[t], in[plan.index[t] * stride]);
  for (++t; t < end; ++t) y = FmaOnce(plan.coefficient[t], in[plan.index[t] * stride], y);
  return y;
}

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_DCT_STAGE_H_
