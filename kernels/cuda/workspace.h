#ifndef LONGWAVE_KERNELS_CUDA_WORKSPACE_H_
#define LONGWAVE_KERNELS_CUDA_WORKSPACE_H_

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/dct_plan.h"

namespace longwave::cuda {

// Memory that grows and is kept: what a call needs beside the caller's arrays is allocated in the
// first calls of a session only.
class GrowingMemory {
 public:
  enum class Kind { kDevice, kPinnedHost };
  explicit GrowingMemory(Kind kind) : kind_(kind) {}
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;

  // At least `bytes`; contents are lost when it grows. Internal: no memory.
  absl::Status Reserve(size_t bytes);

  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  Kind kind_;
  void* memory_ = nullptr;
  size_t capacity_ = 0;
};

// One per process: this process's GPU is the device that was current at the first call. A call
// holds `mutex` from its first use of the buffers until its stream has got past its last.
struct Workspace {
  std::mutex mutex;
  GrowingMemory jobs{GrowingMemory::Kind::kDevice};
  GrowingMemory jobs_host{GrowingMemory::Kind::kPinnedHost};
  GrowingMemory payload{GrowingMemory::Kind::kDevice};
  GrowingMemory payload_host{GrowingMemory::Kind::kPinnedHost};
  GrowingMemory reports{GrowingMemory::Kind::kDevice};
  GrowingMemory reports_host{GrowingMemory::Kind::kPinnedHost};

  // The tables of a plan in device memory, brought there at its first use. Under `mutex`.
  absl::StatusOr<DctPlanView> PlanOnDevice(uint32_t length, DctDirection direction);

  // Never destroyed: the runtime may be gone by the time that a destructor would run.
  static Workspace& Get();

 private:
  std::array<std::array<DctPlanView, 2>, kDctLengthMax + 1> plans_{};  // length 0: not there yet
};

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_WORKSPACE_H_
