#ifndef LONGWAVE_KERNELS_CUDA_BUFFERS_H_
#define LONGWAVE_KERNELS_CUDA_BUFFERS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave::cuda {

enum class MemoryKind { kDevice, kPinnedHost };

// Memory of at least one byte, since an array of none has no address. Errors: ResourceExhausted,
// with the wanted size.
absl::StatusOr<void*> NewMemory(MemoryKind kind, size_t bytes);

// Memory that grows and is kept, so that only the first calls of a session allocate.
class GrowingMemory {
 public:
  explicit GrowingMemory(MemoryKind kind) : kind_(kind) {}
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;

  // Provides at least `bytes`. Growing loses the contents, so that nothing may be under way in
  // them. Errors: as NewMemory's.
  absl::Status Reserve(size_t bytes);
  bool Holds(size_t bytes) const { return bytes <= capacity_; }

  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  MemoryKind kind_;
  void* memory_ = nullptr;
  size_t capacity_ = 0;
};

// A buffer on the device and pinned host memory beside it, so that copies overlap with kernels.
// Never destroyed, since the runtime may be unloaded first.
struct Transit {
  GrowingMemory device{MemoryKind::kDevice};
  GrowingMemory host{MemoryKind::kPinnedHost};
  cudaEvent_t used = nullptr;    // a kernel has finished with `device`
  cudaEvent_t copied = nullptr;  // a copy between the two has finished
  uint32_t encodings = 0;        // with results here that were not finished
  bool arrived = false;          // these results are in `host`, as one that waited has seen

  // Provides both with at least `bytes`, and the events.
  absl::Status Reserve(size_t bytes);
};

// Waits for an event: at first without sleeping, since a thread that slept is late by more than
// most copies take.
absl::Status Await(cudaEvent_t event);

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_BUFFERS_H_
