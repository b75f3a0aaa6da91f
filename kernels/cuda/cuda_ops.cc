#include "kernels/cuda/cuda_ops.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>

#include "common/base/errors.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/dense_ops.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/run_transform.h"

// The CUDA backend's table, and its operations that have no kernel.
//
// The sources compile and link with CUDA, and pass the conformance suite under tests/emulation,
// but have not run on a GPU yet; tests/gpu/run.sh holds them to the same bits on the first machine
// that has one.
namespace longwave::cuda {
namespace {

std::atomic<RunTransform> run_transform = RunTransform::kStages;

absl::Status Copy(const Exec& exec, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (to == nullptr || from == nullptr) {
    return InvalidArgument("copy of ", bytes, " bytes: an array is null");
  }
  LONGWAVE_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, StreamOf(exec)));
  return absl::OkStatus();
}

absl::StatusOr<void*> Allocate(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, std::max<size_t>(1, bytes));
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // reported here, so cleared for later calls
    return ResourceExhausted("no memory on the GPU for an array of ", bytes, " bytes");
  }
  LONGWAVE_CUDA_RETURN_IF_ERROR(error);
  if (absl::Status status =
          ToStatus(cudaMemset(memory, 0, bytes), "cudaMemset", __FILE__, __LINE__);
      !status.ok()) {
    static_cast<void>(cudaFree(memory));
    return status;
  }
  // The zeros must be complete for streams that do not wait for the default one.
  if (absl::Status status =
          ToStatus(cudaDeviceSynchronize(), "cudaDeviceSynchronize", __FILE__, __LINE__);
      !status.ok()) {
    static_cast<void>(cudaFree(memory));
    return status;
  }
  return memory;
}

absl::StatusOr<MachineMemory> Memory() {
  size_t available = 0, total = 0;
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&available, &total));
  return MachineMemory{.available_bytes = static_cast<double>(available),
                       .total_bytes = static_cast<double>(total)};
}

void Release(void* memory) { static_cast<void>(cudaFree(memory)); }

absl::Status Wait(const Exec& exec) {
  return Prefixed("wait", ToStatus(cudaStreamSynchronize(StreamOf(exec)), "cudaStreamSynchronize",
                                   __FILE__, __LINE__));
}

}  // namespace

void SetRunTransform(RunTransform transform) { run_transform = transform; }
RunTransform GetRunTransform() { return run_transform; }

absl::StatusOr<const KernelOps*> Ops() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());
    return Unavailable("no CUDA device: ",
                       error == cudaSuccess ? "the driver lists none" : cudaGetErrorString(error));
  }
  static const KernelOps ops = {"cuda", Encode,   Finish,  Restore, DecodeUpdate, Hash,
                                Copy,   Allocate, Release, Wait,    AdamW,        SquareSum,
                                Scale,  Blend,    Memory,  true};
  return &ops;
}

}  // namespace longwave::cuda
