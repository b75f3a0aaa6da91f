#include "kernels/cuda/workspace.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_status.h"

namespace longwave::cuda {
namespace {

// A copy of `count` elements in device memory, for the rest of the process.
template <typename T>
absl::StatusOr<const T*> Upload(const T* values, size_t count) {
  // A plan of length 1 has no terms, and an allocation of nothing has no address.
  void* memory = nullptr;
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaMalloc(&memory, std::max<size_t>(1, count) * sizeof(T)));
  LONGWAVE_CUDA_RETURN_IF_ERROR(
      cudaMemcpy(memory, values, count * sizeof(T), cudaMemcpyHostToDevice));
  return static_cast<const T*>(memory);
}

}  // namespace

absl::Status GrowingMemory::Reserve(size_t bytes) {
  if (bytes <= capacity_) return absl::OkStatus();
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

absl::StatusOr<DctPlanView> Workspace::PlanOnDevice(uint32_t length, DctDirection direction) {
  DctPlanView& view = plans_[length][static_cast<size_t>(direction)];
  if (view.length != 0) return view;
  const DctPlan& plan = DctPlan::Of(length, direction);
  DctPlanView uploaded = plan.view();
  LONGWAVE_ASSIGN_OR_RETURN(
      uploaded.row_begin, Upload(uploaded.row_begin, size_t{uploaded.stage_count} * (length + 1)));
  LONGWAVE_ASSIGN_OR_RETURN(uploaded.index, Upload(uploaded.index, plan.term_count()));
  LONGWAVE_ASSIGN_OR_RETURN(uploaded.coefficient, Upload(uploaded.coefficient, plan.term_count()));
  view = uploaded;
  return view;
}

Workspace& Workspace::Get() {
  static Workspace* const workspace = new Workspace;
  return *workspace;
}

}  // namespace longwave::cuda
