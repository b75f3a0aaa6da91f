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

// An encoding that was enqueued and not finished: where its results will be, and where they go.
// Known by stream, owner and slot.
struct Encoding {
  cudaStream_t stream = nullptr;
  const void* owner = nullptr;
  uint32_t slot = 0;
  Transit* transit = nullptr;  // reports, then the payload
  uint32_t tile_count = 0;
  std::span<std::byte> payload;
  EncodeReport* report = nullptr;
};

// What the calls of a process have together. One per process: its GPU is the device that was
// current at the first call. A call holds `mutex` while it enqueues; none waits for its own results
// under it, but a payload on its way in waits for the one two before it.
struct Workspace {
  std::mutex mutex;
  Tables tables;
  // Streams of our own that wait for no other: copies run beside the kernels of exec's stream.
  cudaStream_t upload = nullptr, download = nullptr;
  std::vector<Encoding> encodings;                      // under way
  GrowingMemory spectra{GrowingMemory::Kind::kDevice};  // of an FFT, while exec's stream has it
  cudaEvent_t spectra_used = nullptr;

  // A transit for results, of at least `bytes`; back to the others with Return.
  absl::StatusOr<Transit*> Take(size_t bytes);
  void Return(Transit* transit);
  // The next transit for payloads on their way in, once the kernel that had it is done.
  absl::StatusOr<Transit*> NextStaging(size_t bytes);

  // The process's, with its streams. Never destroyed: the runtime may be gone by the time that a
  // destructor would run.
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
