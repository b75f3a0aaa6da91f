#include "kernels/cuda/buffers.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_status.h"

namespace longwave::cuda {

absl::Status GrowingMemory::Reserve(size_t bytes) {
  if (Holds(bytes)) return absl::OkStatus();
  const size_t capacity = std::max(bytes, capacity_ + capacity_ / 2);
  if (kind_ == Kind::kDevice) {
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaFree(memory_));
  } else {
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaFreeHost(memory_));
  }
  memory_ = nullptr;
  capacity_ = 0;
  if (kind_ == Kind::kDevice) {
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMalloc(&memory_, capacity));
  } else {
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMallocHost(&memory_, capacity));
  }
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

}  // namespace longwave::cuda
