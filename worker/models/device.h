#ifndef LONGWAVE_WORKER_MODELS_DEVICE_H_
#define LONGWAVE_WORKER_MODELS_DEVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace longwave {

// A worker's device. LibTorch computes the model there, and our kernels the sync and the optimizer,
// in the same stream.
struct Device {
  BackendKind kind = BackendKind::kCpu;  // kCpu or kCuda
  const KernelOps* ops = nullptr;
  void* stream = nullptr;  // LibTorch's current one, as Exec has it
  // Why `auto` has chosen the CPU.
  std::string why_not_cuda;
};

// asked: "cpu", "cuda" or "auto" (CUDA if it works, else the CPU). Our binaries link LibTorch's CPU
// libraries only, so that one worker serves machines with and without a GPU. With a GPU, OpenDevice
// loads libtorch_cuda.so from the folder of the LibTorch in use. Unavailable: "cuda" without
// support by our kernels, LibTorch or the machine; the message says which.
absl::StatusOr<Device> OpenDevice(const std::string& asked);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_DEVICE_H_
