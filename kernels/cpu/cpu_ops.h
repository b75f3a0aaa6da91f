#ifndef LONGWAVE_KERNELS_CPU_CPU_OPS_H_
#define LONGWAVE_KERNELS_CPU_CPU_OPS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/cpu/tile_math.h"
#include "kernels/ops.h"

namespace longwave::cpu {

// The instruction sets that the CPU backend is built for, from the least to the most.
enum class Isa : uint8_t { kGeneric = 0, kAvx2 = 1, kAvx512 = 2 };

std::string_view Name(Isa isa);  // "generic", "avx2", "avx512"

// The sets that this processor can run, kGeneric first. Never empty.
std::vector<Isa> SupportedIsas();

// The backend in one instruction set, which must be supported. OpsFor(kCpu) is the last of
// SupportedIsas(); the others are for tests, which hold them to the same bits.
const KernelOps& OpsOf(Isa isa);
const TileMath& TileMathOf(Isa isa);

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_CPU_OPS_H_
