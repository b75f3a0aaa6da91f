#ifndef LONGWAVE_KERNELS_CPU_CPU_OPS_H_
#define LONGWAVE_KERNELS_CPU_CPU_OPS_H_

#include "common/base/isa.h"
#include "kernels/ops.h"

namespace longwave::cpu {

// The backend in one supported instruction set. OpsFor(kCpu) is the last of SupportedIsas(); the
// tests compare the others with it to the bit.
const KernelOps& OpsOf(Isa isa);

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_CPU_OPS_H_
