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
#include "kernels/cuda/jobs.h"
#include "kernels/cuda/tables.h"
#include "kernels/ops.h"

namespace longwave::cuda {

// An encoding that was enqueued and not finished, and the places of its results. Identified by
// stream, owner and segment.
struct Encoding {
  cudaStream_t stream = nullptr;
  const void* owner = nullptr;
  uint32_t segment = 0;
  Transit* transit = nullptr;  // of all segments of its call
  size_t reports_begin = 0;    // in the transit
  uint32_t tile_count = 0;
  EncodeReport* report = nullptr;
};

// The state that all calls of a process share. Its GPU is the device that was current at the first
// call, and the only one. A call holds `mutex` while it enqueues. No call waits for its own results
// under it, but incoming payloads wait for those kStagings before them.
struct Workspace {
  std::mutex mutex;
  Tables tables;
  // Non-blocking streams, so that copies overlap with the kernels of exec's stream.
  cudaStream_t upload = nullptr, download = nullptr;
  std::vector<Encoding> encodings;             // under way
  std::vector<TileRun> runs;                   // of the call that holds the mutex
  GrowingMemory spectra{MemoryKind::kDevice};  // of an FFT, while exec's stream uses it
  cudaEvent_t spectra_used = nullptr;

  // Takes a transit of at least `bytes` for results; Return gives it back.
  absl::StatusOr<Transit*> Take(size_t bytes);
  void Return(Transit* transit);
  // The next transit for incoming payloads, once its last kernel is done.
  absl::StatusOr<Transit*> NextStaging(size_t bytes);

  // The process's workspace with its streams. Never destroyed, since the runtime may be unloaded
  // before. Errors: FailedPrecondition (another device is current than at the first call).
  static absl::StatusOr<Workspace*> Get();
  // Makes its device current on this thread, where no call may have been before: the runtime would
  // make a context on device 0.
  static void UseDevice();

 private:
  static constexpr size_t kStagings = 8;

  static Workspace& Only();

  // On the first call.
  absl::Status CreateStreams();

  int device_ = 0;  // of the streams

  std::vector<std::unique_ptr<Transit>> owned_;
  std::vector<Transit*> free_;
  std::array<Transit, kStagings> staging_;
  size_t staging_next_ = 0;
};

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_WORKSPACE_H_
