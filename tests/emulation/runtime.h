#ifndef LONGWAVE_TESTS_EMULATION_RUNTIME_H_
#define LONGWAVE_TESTS_EMULATION_RUNTIME_H_

#include <cstddef>
#include <functional>

#include "cuda_runtime_api.h"

namespace longwave::emulation {

// CUDA without a GPU: the part that kernels/cuda uses, for the host's compiler, so that the GPU's
// sources are tested without one. The sources include <cuda_runtime.h> and <cuda_runtime_api.h>,
// and get those of tests/emulation/cuda. They are otherwise unchanged.
//
//   device_language.h   the built-in functions and types of the device
//   block.h             the threads of a block as fibers, barriers, warps
//   shared_memory.h     the block's memory
//   device_memory.h     the device's memory and pinned memory
//   runtime.cc          streams and events
//   orders.h            what CUDA leaves open, chosen for a run
//
// Queued work runs in an order that streams and events permit, and no other order is promised: see
// StreamOrder. Copies follow CUDA's documentation. A copy from or to pageable memory has read or
// written the host's side on return. A copy from or to pinned memory runs with its stream.
//
// The host cannot access device memory except by copies. Device memory and pinned memory begin as
// NaNs. A kernel argument that may be a host address is refused.
//
// Not emulated: time, memory's caches and their order (each thread sees others' writes at once),
// warps in lock step, more than one device, textures, graphs, cooperative launches.

cudaError_t EnqueueKernel(dim3 grid, dim3 block, cudaStream_t stream, std::function<void()> thread);
void CheckKernelArgument(size_t number, const void* argument, size_t bytes);

// Counts of everything created so far, by any caller.
struct ResourceCounts {
  size_t device_arrays = 0;
  size_t pinned_arrays = 0;
  size_t streams = 0;
  size_t events = 0;
};
ResourceCounts ResourcesMade();

// Major and minor number of the device, such as 75 for 7.5.
inline int capability = 90;
// The current device's number. Memory and streams are of the one device, whichever is current.
inline int device = 0;
// Whether an FFT fails (fft_plain.cc), as one without memory for its plan.
inline bool fft_fails = false;

// While one lives, its thread is in the emulation, whose allocations are none of its caller's.
class Inside {
 public:
  Inside() { ++depth_; }
  ~Inside() { --depth_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static bool Now() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_RUNTIME_H_
