#ifndef LONGWAVE_KERNELS_CPU_OPTIMIZER_H_
#define LONGWAVE_KERNELS_CPU_OPTIMIZER_H_

#include "absl/status/status.h"
#include "common/base/isa.h"
#include "kernels/cpu/optimizer_math.h"
#include "kernels/ops.h"

namespace longwave::cpu {

const OptimizerMath& OptimizerMathOf(Isa isa);

// KernelOps::adamw, square_sum, scale and blend with the inner loops of one instruction set.
absl::Status AdamW(const OptimizerMath& math, const Exec& exec, const AdamWArgs& args);
absl::Status SquareSum(const OptimizerMath& math, const Exec& exec, const SquareSumArgs& args);
absl::Status Scale(const OptimizerMath& math, const Exec& exec, const ScaleArgs& args);
absl::Status Blend(const OptimizerMath& math, const Exec& exec, const BlendArgs& args);

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_OPTIMIZER_H_
