#include "kernels/cuda/buffers.h"

#include <algorithm>
#include <chrono>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_status.h"

namespace longwave::cuda {

absl::StatusOr<void*> NewMemory(MemoryKind kind, size_t bytes) {
  void* memory = nullptr;
  bytes = std::max<size_t>(1, bytes);
  const bool on_device = kind == MemoryKind::kDevice;
  const cudaError_t error = on_device ? cudaMalloc(&memory, bytes) : cudaMallocHost(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // reported here, so cleared for later calls
    return ResourceExhausted("no ", on_device ? "" : "pinned host ", "memory",
                             on_device ? " on the GPU" : "", " for an array of ", bytes, " bytes");
  }
  LONGWAVE_CUDA_RETURN_IF_ERROR(error);
  return memory;
}

absl::Status GrowingMemory::Reserve(size_t bytes) {
  if (Holds(bytes)) return absl::OkStatus();
  const size_t capacity = std::max(bytes, capacity_ + capacity_ / 2);
  if (kind_ == MemoryKind::kDevice) {
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaFree(memory_));
  } else {
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaFreeHost(memory_));
  }
  memory_ = nullptr;
  capacity_ = 0;
  LONGWAVE_ASSIGN_OR_RETURN(memory_, NewMemory(kind_, capacity));
  capacity_ = capacity;
  return absl::OkStatus();
}

absl::Status Transit::Reserve(size_t bytes) {
  // A wait for these may last as long as the inner steps before them, so the thread sleeps.
  constexpr unsigned kFlags = cudaEventDisableTiming | cudaEventBlockingSync;
  for (cudaEvent_t* event : {&used, &copied}) {
    if (*event == nullptr) LONGWAVE_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(event, kFlags));
  }
  LONGWAVE_RETURN_IF_ERROR(device.Reserve(bytes));
  return host.Reserve(bytes);
}

absl::Status Await(cudaEvent_t event) {
  constexpr std::chrono::microseconds kSpin{50};
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    const cudaError_t error = cudaEventQuery(event);
    if (error != cudaErrorNotReady) return LONGWAVE_CUDA_STATUS(error);
    static_cast<void>(cudaGetLastError());  // no error, and must not reach a later call as one
  } while (std::chrono::steady_clock::now() < end);
  return LONGWAVE_CUDA_STATUS(cudaEventSynchronize(event));
}

}  // namespace longwave::cuda
