#ifndef LONGWAVE_TESTS_SUPPORT_REFERENCE_OPTIMIZER_H_
#define LONGWAVE_TESTS_SUPPORT_REFERENCE_OPTIMIZER_H_

#include "absl/status/status.h"
#include "kernels/ops.h"

namespace longwave::ref {

// KernelOps::adamw, square_sum, scale and blend in double precision, each result rounded once.
absl::Status AdamW(const Exec& exec, const AdamWArgs& args);
absl::Status SquareSum(const Exec& exec, const SquareSumArgs& args);
absl::Status Scale(const Exec& exec, const ScaleArgs& args);
absl::Status Blend(const Exec& exec, const BlendArgs& args);

}  // namespace longwave::ref

#endif  // LONGWAVE_TESTS_SUPPORT_REFERENCE_OPTIMIZER_H_
