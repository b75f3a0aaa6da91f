#include "kernels/cuda/cuda_ops.h"

#include <cuda_runtime_api.h>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/buffers.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/dense_ops.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/workspace.h"

// The CUDA backend's table, and its operations that have no kernel.
//
// The conformance suite passed on an H200 on 2026-11-27, and passes under tests/emulation in every
// build; tests/gpu has what a machine with a GPU can check.
namespace longwave::cuda {
namespace {

absl::Status Copy(const Exec& exec, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (to == nullptr || from == nullptr) {
    return InvalidArgument("copy of ", bytes, " bytes: an array is null");
  }
  return LONGWAVE_CUDA_STATUS(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, StreamOf(exec)));
}

absl::StatusOr<void*> Allocate(size_t bytes) {
  LONGWAVE_ASSIGN_OR_RETURN(void* memory, NewMemory(MemoryKind::kDevice, bytes));
  absl::Status status = LONGWAVE_CUDA_STATUS(cudaMemset(memory, 0, bytes));
  // The zeros must be complete for streams that do not wait for the default one.
  if (status.ok()) status = LONGWAVE_CUDA_STATUS(cudaDeviceSynchronize());
  if (status.ok()) return memory;
  static_cast<void>(cudaFree(memory));
  return status;
}

absl::StatusOr<MachineMemory> Memory() {
  size_t available = 0, total = 0;
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&available, &total));
  return MachineMemory{.available_bytes = static_cast<double>(available),
                       .total_bytes = static_cast<double>(total)};
}

void Release(void* memory) { static_cast<void>(cudaFree(memory)); }

absl::StatusOr<void*> AllocateHost(size_t bytes) {
  return NewMemory(MemoryKind::kPinnedHost, bytes);
}

// Of the thread that sends, perhaps.
void ReleaseHost(void* memory) {
  Workspace::UseDevice();
  static_cast<void>(cudaFreeHost(memory));
}

absl::Status Wait(const Exec& exec) {
  return Prefixed("wait", LONGWAVE_CUDA_STATUS(cudaStreamSynchronize(StreamOf(exec))));
}

// Whether the build has code for the current device. LONGWAVE_CUDA_OLDEST: major and minor number
// of the oldest architecture that it was compiled for.
absl::Status CheckCapability() {
  int device = 0, major = 0, minor = 0;
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  LONGWAVE_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  LONGWAVE_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  if (10 * major + minor >= LONGWAVE_CUDA_OLDEST) return absl::OkStatus();
  return Unavailable("the GPU has compute capability ", major, ".", minor, ", wanted at least ",
                     LONGWAVE_CUDA_OLDEST / 10, ".", LONGWAVE_CUDA_OLDEST % 10,
                     ", for which this build was compiled");
}

}  // namespace

absl::StatusOr<const KernelOps*> Ops() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());
    return Unavailable("no CUDA device: ",
                       error == cudaSuccess ? "the driver lists none" : cudaGetErrorString(error));
  }
  LONGWAVE_RETURN_IF_ERROR(CheckCapability());
  static const KernelOps ops = {"cuda", Encode,    Finish,  Restore,      DecodeUpdate, Hash,
                                Copy,   Allocate,  Release, AllocateHost, ReleaseHost,  Wait,
                                AdamW,  SquareSum, Scale,   Blend,        Memory,       true};
  return &ops;
}

}  // namespace longwave::cuda
