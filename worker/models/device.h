#ifndef LONGWAVE_WORKER_MODELS_DEVICE_H_
#define LONGWAVE_WORKER_MODELS_DEVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace longwave {

// Where a worker computes: the model by LibTorch, the sync and the optimizer by our kernels, both
// on the same device and in the same stream.
struct Device {
  BackendKind kind = BackendKind::kCpu;  // kCpu or kCuda
  const KernelOps* ops = nullptr;
  void* stream = nullptr;  // LibTorch's current one, as Exec has it
  // `auto` on the CPU: why not on a GPU.
  std::string why_not_cuda;
};

// asked: "cpu", "cuda" or "auto", which is CUDA if that works and else the CPU. Binaries of ours
// link LibTorch's CPU libraries alone, so that one worker serves machines with and without a GPU:
// libtorch_cuda.so is loaded here, from the folder of the LibTorch in use, when there is a GPU.
// Unavailable: "cuda" where our kernels, LibTorch or the machine have none; says which.
absl::StatusOr<Device> OpenDevice(const std::string& asked);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_DEVICE_H_
