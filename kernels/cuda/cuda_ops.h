#ifndef LONGWAVE_KERNELS_CUDA_CUDA_OPS_H_
#define LONGWAVE_KERNELS_CUDA_CUDA_OPS_H_

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace longwave::cuda {

// OpsFor(kCuda): kernels/cuda/cuda_ops.cc, or kernels/cuda/absent.cc in a build without CUDA.
// Errors: Unavailable, with the reason.
absl::StatusOr<const KernelOps*> Ops();

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_CUDA_OPS_H_
