#ifndef LONGWAVE_KERNELS_HOST_MEMORY_H_
#define LONGWAVE_KERNELS_HOST_MEMORY_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace longwave {

// KernelOps::copy, allocate and release of the backends whose dense data is in host memory.
absl::Status CopyHost(const Exec& exec, void* to, const void* from, size_t bytes);
absl::StatusOr<void*> AllocateHost(size_t bytes);
void ReleaseHost(void* memory);

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_HOST_MEMORY_H_
