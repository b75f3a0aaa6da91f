#ifndef LONGWAVE_TESTS_EMULATION_BLOCK_H_
#define LONGWAVE_TESTS_EMULATION_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "cuda_runtime_api.h"
#include "tests/emulation/refuse.h"

namespace longwave::emulation {

// The blocks of a grid one after the other, each of a fiber a thread. A fiber runs until it has to
// wait for others, at a barrier or at an exchange within its warp, or ends.
//
// Stricter than a GPU, which lets threads end early: a barrier wants every thread of the block, at
// the same place in the source, and an exchange every lane that its mask names. What can no longer
// arrive is refused by name instead of waiting for ever.
struct Grid {
  dim3 blocks, threads;
  const std::function<void()>* thread = nullptr;  // the kernel with its arguments
};
void Run(const Grid& grid);

// The running thread's place, e.g. "block 3, thread 17: "; empty outside of a kernel.
std::string Running();

// The meaning of a fault's address for the running block, as the end of a sentence; empty if
// unknown.
std::string DescribeBlockMemory(const void* address);

// Called by the kernels, through the device language.

// The barrier of the block.
void Barrier(Where where);

// Each lane that the mask names gives a value; all have all values then. Lanes of the others read
// as an undefined value: all bits set.
struct WarpValues {
  uint64_t of[32];
};
const WarpValues& Exchange(const char* operation, uint32_t mask, uint64_t value, Where where);
uint32_t Lane();

// The block's object of a declaration in the source; `key` is equal for all its threads. Filled
// with 0xff at first, since the initial content of shared memory is undefined.
void* SharedObject(const void* key, size_t bytes, size_t alignment);

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_BLOCK_H_
