#ifndef LONGWAVE_KERNELS_BACKENDS_H_
#define LONGWAVE_KERNELS_BACKENDS_H_

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace longwave {

// The source of each backend's table. Callers use OpsFor.
namespace ref {
const KernelOps& Ops();
}
namespace cuda {
// kernels/cuda/cuda_ops.cc, or kernels/cuda/absent.cc in a build without CUDA. Errors: Unavailable,
// with the reason.
absl::StatusOr<const KernelOps*> Ops();
}  // namespace cuda

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_BACKENDS_H_
