#ifndef LONGWAVE_KERNELS_CPU_OPTIMIZER_MATH_H_
#define LONGWAVE_KERNELS_CPU_OPTIMIZER_MATH_H_

#include <cstddef>

#include "kernels/optimizer.h"

namespace longwave::cpu {

// The optimizer's inner loops, compiled for each instruction set from the same source. All variants
// give the same bits.
struct OptimizerMath {
  // Elements begin … end − 1.
  void (*adamw)(const AdamWArgs& args, size_t begin, size_t end);
  void (*scale)(const ScaleArgs& args, size_t begin, size_t end);
  void (*blend)(const BlendArgs& args, size_t begin, size_t end);
  // The sum of one chunk: count <= kSquareSumChunk.
  double (*square_sum)(const float* x, size_t count);
};

extern const OptimizerMath kOptimizerMathGeneric;
#ifdef LONGWAVE_CPU_X86
extern const OptimizerMath kOptimizerMathAvx2;
extern const OptimizerMath kOptimizerMathAvx512;
#endif

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_OPTIMIZER_MATH_H_
