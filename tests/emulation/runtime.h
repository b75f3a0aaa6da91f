#ifndef LONGWAVE_TESTS_EMULATION_RUNTIME_H_
#define LONGWAVE_TESTS_EMULATION_RUNTIME_H_

#include <cstddef>
#include <functional>

#include "cuda_runtime_api.h"

namespace longwave::emulation {

// CUDA without a GPU: what kernels/cuda uses of it, for the host's compiler, so that the sources
// that run on a GPU are tested where there is none. The sources include <cuda_runtime.h> and
// <cuda_runtime_api.h>, and find those of tests/emulation/cuda; nothing else of them changes.
//
//   device_language.h   the built-in functions and types of the device
//   block.h             the threads of a block as fibers, barriers, warps
//   shared_memory.h     the block's memory
//   device_memory.h     the device's memory and pinned memory
//   runtime.cc          streams and events
//   orders.h            what CUDA leaves open, chosen for a run
//
// Work is queued on streams and runs in an order that streams and events permit. That an order is
// permitted is all that is promised: see StreamOrder. Copies follow CUDA's documentation: those
// from and to pageable memory have read, or written, the host's side when they return; those from
// and to pinned memory run with their stream.
//
// The memory of the device can't be touched by the host, except by copies, and begins as NaNs; so
// does pinned memory. What may be a host's address in a kernel's arguments is refused.
//
// What is not emulated: time, memory's caches and their order (each thread sees at once what
// another wrote), warps in lock step, more than one device, textures, graphs, cooperative launches.

cudaError_t EnqueueKernel(const void* kernel, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                          cudaStream_t stream, std::function<void()> thread);
void CheckKernelArgument(size_t number, const void* argument, size_t bytes);

// How many of each were made so far, whoever asked for them.
struct ResourceCounts {
  size_t device_arrays = 0;
  size_t pinned_arrays = 0;
  size_t streams = 0;
  size_t events = 0;
};
ResourceCounts ResourcesMade();

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
