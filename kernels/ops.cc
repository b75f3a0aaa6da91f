#include "kernels/ops.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cuda/cuda_ops.h"

namespace longwave {

absl::StatusOr<const KernelOps*> OpsFor(BackendKind kind) {
  if (kind == BackendKind::kCuda) return cuda::Ops();
  static const KernelOps* const best = &cpu::OpsOf(SupportedIsas().back());
  return best;
}

}  // namespace longwave
