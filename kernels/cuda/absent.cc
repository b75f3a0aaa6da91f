#include "common/base/errors.h"
#include "kernels/cuda/cuda_ops.h"

namespace longwave::cuda {

absl::StatusOr<const KernelOps*> Ops() {
  return Unavailable(
      "the CUDA backend is not in this build: configure with LONGWAVE_CUDA=ON and a CUDA toolkit");
}

void SetRunTransform(RunTransform) {}

}  // namespace longwave::cuda
