#ifndef LONGWAVE_KERNELS_CPU_DECODE_UPDATE_H_
#define LONGWAVE_KERNELS_CPU_DECODE_UPDATE_H_

#include "kernels/cpu/tile_math.h"
#include "kernels/ops.h"

namespace longwave::cpu {

// KernelOps::decode_update, restore and hash with the inner loops of one instruction set.
absl::Status DecodeUpdate(const TileMath& math, const Exec& exec, const DecodeUpdateArgs& args);
absl::Status Restore(const TileMath& math, const Exec& exec, const RestoreArgs& args);
absl::Status Hash(const TileMath& math, const Exec& exec, const HashArgs& args);

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_DECODE_UPDATE_H_
