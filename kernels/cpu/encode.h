#ifndef LONGWAVE_KERNELS_CPU_ENCODE_H_
#define LONGWAVE_KERNELS_CPU_ENCODE_H_

#include "kernels/cpu/tile_math.h"
#include "kernels/ops.h"

namespace longwave::cpu {

// KernelOps::encode with the inner loops of one instruction set.
absl::Status Encode(const TileMath& math, const Exec& exec, const EncodeArgs& args);

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_ENCODE_H_
