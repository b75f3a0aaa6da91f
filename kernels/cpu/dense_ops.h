#ifndef LONGWAVE_KERNELS_CPU_DENSE_OPS_H_
#define LONGWAVE_KERNELS_CPU_DENSE_OPS_H_

#include "absl/status/status.h"
#include "common/base/isa.h"
#include "kernels/cpu/optimizer_math.h"
#include "kernels/cpu/tile_math.h"
#include "kernels/ops.h"

namespace longwave::cpu {

// The CPU backend's operations of ops.h by file, with the inner loops of one instruction set.

// Of one segment.
absl::Status Encode(const TileMath& math, const Exec& exec, const EncodeArgs& args);  // encode.cc

// decode_update.cc
absl::Status DecodeUpdate(const TileMath& math, const Exec& exec, const DecodeUpdateArgs& args);
absl::Status Restore(const TileMath& math, const Exec& exec, const RestoreArgs& args);
absl::Status Hash(const TileMath& math, const Exec& exec, const HashArgs& args);

// optimizer.cc
const OptimizerMath& OptimizerMathOf(Isa isa);
absl::Status AdamW(const OptimizerMath& math, const Exec& exec, const AdamWArgs& args);
absl::Status SquareSum(const OptimizerMath& math, const Exec& exec, const SquareSumArgs& args);
absl::Status Scale(const OptimizerMath& math, const Exec& exec, const ScaleArgs& args);
absl::Status Blend(const OptimizerMath& math, const Exec& exec, const BlendArgs& args);

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_DENSE_OPS_H_
