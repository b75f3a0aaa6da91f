#ifndef LONGWAVE_KERNELS_CUDA_BUFFERS_H_
#define LONGWAVE_KERNELS_CUDA_BUFFERS_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "absl/status/status.h"

namespace longwave::cuda {

// Memory that grows and is kept: what a call needs beside the caller's arrays is allocated in the
// first calls of a session only.
class GrowingMemory {
 public:
  enum class Kind { kDevice, kPinnedHost };
  explicit GrowingMemory(Kind kind) : kind_(kind) {}
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;

  // At least `bytes`; contents are lost when it grows, so that nothing may be under way in it.
  // Internal: no memory.
  absl::Status Reserve(size_t bytes);
  bool Holds(size_t bytes) const { return bytes <= capacity_; }

  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  Kind kind_;
  void* memory_ = nullptr;
  size_t capacity_ = 0;
};

// What crosses between host and device goes through pinned memory beside a buffer on the device, so
// that copies run beside kernels. Never destroyed, as the runtime may be gone by then.
struct Transit {
  GrowingMemory device{GrowingMemory::Kind::kDevice};
  GrowingMemory host{GrowingMemory::Kind::kPinnedHost};
  cudaEvent_t used = nullptr;    // a kernel is done with `device`
  cudaEvent_t copied = nullptr;  // a copy between the two is done

  // Both at least so large, and the events there.
  absl::Status Reserve(size_t bytes);
};

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_BUFFERS_H_
