#ifndef LONGWAVE_KERNELS_CUDA_WORKSPACE_H_
#define LONGWAVE_KERNELS_CUDA_WORKSPACE_H_

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/buffers.h"
#include "kernels/cuda/tables.h"
#include "kernels/ops.h"

namespace longwave::cuda {

// An encoding that was enqueued and not finished, and the places of its results. Identified by
// stream, owner and slot.
struct Encoding {
  cudaStream_t stream = nullptr;
  const void* owner = nullptr;
  uint32_t slot = 0;
  Transit* transit = nullptr;  // reports, then the payload
  uint32_t tile_count = 0;
  std::span<std::byte> payload;
  EncodeReport* report = nullptr;
};

// The state that all calls of a process share. Its GPU is the device that was current at the first
// call. A call holds `mutex` while it enqueues. No call waits for its own results under it, but an
// incoming payload waits for the one two before it.
struct Workspace {
  std::mutex mutex;
  Tables tables;
  // Non-blocking streams, so that copies overlap with the kernels of exec's stream.
  cudaStream_t upload = nullptr, download = nullptr;
  std::vector<Encoding> encodings;             // under way
  GrowingMemory spectra{MemoryKind::kDevice};  // of an FFT, while exec's stream uses it
  cudaEvent_t spectra_used = nullptr;

  // Takes a transit of at least `bytes` for results; Return gives it back.
  absl::StatusOr<Transit*> Take(size_t bytes);
  void Return(Transit* transit);
  // The next transit for incoming payloads, once its last kernel is done.
  absl::StatusOr<Transit*> NextStaging(size_t bytes);

  // The process's workspace with its streams. Never destroyed, since the runtime may be unloaded
  // before.
  static absl::StatusOr<Workspace*> Get();

 private:
  absl::Status CreateStreams();

  std::vector<std::unique_ptr<Transit>> owned_;
  std::vector<Transit*> free_;
  std::array<Transit, 2> staging_;
  size_t staging_next_ = 0;
};

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_WORKSPACE_H_
