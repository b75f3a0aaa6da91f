#ifndef LONGWAVE_KERNELS_CPU_CPU_OPS_H_
#define LONGWAVE_KERNELS_CPU_CPU_OPS_H_

#include "common/base/isa.h"
#include "kernels/ops.h"

namespace longwave::cpu {

// The backend in one instruction set, which must be supported. OpsFor(kCpu) is the last of
// SupportedIsas(); the others are for tests, which hold them to the same bits.
const KernelOps& OpsOf(Isa isa);

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_CPU_OPS_H_
