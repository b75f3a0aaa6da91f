#include "kernels/cuda/workspace.h"

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_status.h"

namespace longwave::cuda {

absl::StatusOr<Transit*> Workspace::Take(size_t bytes) {
  if (free_.empty()) {
    owned_.push_back(std::make_unique<Transit>());
    free_.reserve(owned_.size());
    free_.push_back(owned_.back().get());
  }
  Transit* const transit = free_.back();
  LONGWAVE_RETURN_IF_ERROR(transit->Reserve(bytes));
  free_.pop_back();
  return transit;
}

void Workspace::Return(Transit* transit) { free_.push_back(transit); }

absl::StatusOr<Transit*> Workspace::NextStaging(size_t bytes) {
  Transit& transit = staging_[staging_next_];
  staging_next_ = (staging_next_ + 1) % staging_.size();
  if (transit.used != nullptr) LONGWAVE_RETURN_IF_ERROR(Await(transit.used));
  LONGWAVE_RETURN_IF_ERROR(transit.Reserve(bytes));
  return &transit;
}

absl::Status Workspace::CreateStreams() {
  int device = 0;
  LONGWAVE_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  if (upload == nullptr) device_ = device;
  if (device != device_) {
    return FailedPrecondition("CUDA: device ", device,
                              " is current in this process, which computes ", "on device ", device_,
                              "; wanted one GPU a process");
  }
  for (cudaStream_t* stream : {&upload, &download}) {
    if (*stream != nullptr) continue;
    LONGWAVE_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
  }
  return absl::OkStatus();
}

Workspace& Workspace::Only() {
  static Workspace* const workspace = new Workspace;
  return *workspace;
}

absl::StatusOr<Workspace*> Workspace::Get() {
  Workspace& workspace = Only();
  const std::lock_guard lock(workspace.mutex);
  LONGWAVE_RETURN_IF_ERROR(workspace.CreateStreams());
  return &workspace;
}

void Workspace::UseDevice() {
  Workspace& workspace = Only();
  const std::lock_guard lock(workspace.mutex);
  int device = 0;
  if (workspace.upload == nullptr || cudaGetDevice(&device) != cudaSuccess) return;
  if (device != workspace.device_) static_cast<void>(cudaSetDevice(workspace.device_));
}

}  // namespace longwave::cuda
