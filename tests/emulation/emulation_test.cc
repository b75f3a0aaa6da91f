// The mistakes of kernels and of their callers that the emulation is there to show. That correct
// code gets CUDA's results, tests/conformance shows, under each of the orders.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "tests/emulation/runtime.h"
#include "tests/emulation/testing.h"

namespace longwave::emulation {
namespace {

// A mistaken program, and the text with which the emulation ends it.
struct Mistake {
  std::function<void()> make;
  const char* said;
};
void ExpectRefused(const std::vector<Mistake>& mistakes) {
  for (const auto& [make, said] : mistakes) EXPECT_DEATH(make(), said);
}

// Threads of a block.

// Neighbours: from below, and without the barrier that this needs.
__global__ void TakeFromBelow(bool barrier, unsigned* out) {
  LONGWAVE_SHARED(unsigned[64], values);
  values[threadIdx.x] = threadIdx.x;
  if (barrier) __syncthreads();
  out[threadIdx.x] = threadIdx.x == 0 ? 0 : values[threadIdx.x - 1];
}

TEST(EmulatedBlock, AnOrderShowsAMissingBarrier) {
  using Kind = ThreadOrder::Kind;
  std::vector<unsigned> wanted(64, 0);
  std::iota(wanted.begin() + 1, wanted.end(), 0);
  for (const ThreadOrder order : std::vector<ThreadOrder>{
           {Kind::kAscending}, {Kind::kDescending}, {Kind::kShuffled, 1}, {Kind::kShuffled, 2}}) {
    const WithOrder with(order);
    const DeviceArray<unsigned> right(64), wrong(64);
    RunKernel(TakeFromBelow, 1, 64, true, right.data());
    EXPECT_EQ(right.Read(), wanted);
    RunKernel(TakeFromBelow, 1, 64, false, wrong.data());
    if (order.kind == Kind::kAscending) {
      EXPECT_EQ(wrong.Read(), wanted) << "the order that hides it";
    } else {
      EXPECT_NE(wrong.Read(), wanted);
    }
  }
}

__global__ void ReadBeforeWriting(unsigned* out) {
  LONGWAVE_SHARED(unsigned[4], fixed);
  if (threadIdx.x == 0) out[blockIdx.x] = fixed[3];
  __syncthreads();
  if (threadIdx.x == 1) fixed[3] = 7;
}

TEST(EmulatedBlock, SharedMemoryBeginsUndefinedInEveryBlock) {
  const DeviceArray<unsigned> out(3);
  RunKernel(ReadBeforeWriting, 3, 2, out.data());
  EXPECT_EQ(out.Read(), std::vector<unsigned>(3, ~0u));
}

__global__ void LeaveBeforeTheBarrier() {
  if (threadIdx.x >= 20) return;
  __syncthreads();
}
__global__ void BarriersApart() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void LeaveBeforeTheShuffle(unsigned* out) {
  if (threadIdx.x == 9) return;
  out[threadIdx.x] = __shfl_up_sync(~0u, 1u, 1);
}
__global__ void HalfAtTheBarrier(unsigned mask, unsigned* out) {
  if (threadIdx.x < 16) {
    *out = __ballot_sync(mask, 1);
  } else {
    __syncthreads();
  }
}
__global__ void TwoOperations(unsigned* out) {
  out[threadIdx.x] = threadIdx.x < 16 ? __reduce_add_sync(~0u, 1) : __reduce_max_sync(~0u, 1);
}

TEST(EmulatedBlockDeathTest, RefusesWaitsThatCannotEnd) {
  const DeviceArray<unsigned> array(64);
  unsigned* const out = array.data();
  ExpectRefused({
      {[] { RunKernel(LeaveBeforeTheBarrier, 1, 64); },
       "thread 0 is at the barrier of emulation_test.cc:[0-9]+, thread 20 has ended"},
      {[] { RunKernel(BarriersApart, 1, 64); },
       "thread 0 is at the barrier of .*, thread 32 at that of "},
      {[=] { RunKernel(LeaveBeforeTheShuffle, 1, 32, out); },
       "thread 0 is at __shfl_up_sync of .* with the mask 0xffffffff, thread 9 has ended"},
      {[=] { RunKernel(HalfAtTheBarrier, 1, 32, ~0u, out); },
       "thread 0 is at __ballot_sync of .*, thread 16 is at the barrier"},
      {[=] { RunKernel(HalfAtTheBarrier, 1, 16, 0xfffeu, out); },
       "the mask leaves out lane 0, which calls"},
      {[=] { RunKernel(HalfAtTheBarrier, 1, 16, ~0u, out); }, "the warp has 16 lanes only"},
      {[=] { RunKernel(TwoOperations, 1, 32, out); }, "with lanes in common"},
  });
}

__global__ void WriteShared(int at) {
  LONGWAVE_SHARED(unsigned[5], fixed);
  unsigned* const plain =
      fixed;  // of unknown bounds, or a sanitizer asks before the memory is touched
  plain[at] = 1;
}
__global__ void WriteGlobal(float* array, int at) { array[at] = 1; }
__global__ void Recurse(volatile int* depth) {
  volatile int frame[64] = {*depth};
  if (frame[0] >= 0) Recurse(frame);
  *depth = frame[1];
}

TEST(EmulatedBlockDeathTest, RefusesToTouchWhatIsNotTheBlocks) {
  const auto said = [](const char* poisoned, const char* plain) {
    return kAddressSanitizer ? poisoned : plain;
  };
  const char* const poisoned = "use-after-poison";
  const DeviceArray<float> floats(64);  // the array ends with its page
  const DeviceArray<float> beside(3);   // so that no trap is beside it: told when the kernel ends
  const DeviceArray<int> word(std::vector<int>{1});
  float *const array = floats.data(), *const small = beside.data();
  volatile int* const depth = word.data();
  RunKernel(WriteShared, 1, 1, 4);
  RunKernel(WriteGlobal, 1, 1, array, 63);
  ExpectRefused({
      {[] { RunKernel(WriteShared, 1, 1, 5); },
       said(poisoned, "20 bytes from the begin of a shared object of 20")},
      {[] { RunKernel(WriteShared, 1, 1, -1); }, said(poisoned, "before the shared objects")},
      {[=] { RunKernel(WriteGlobal, 1, 1, array, 64); },
       said(poisoned, "0 bytes past the end of 256 bytes of device memory")},
      {[=] { RunKernel(WriteGlobal, 1, 1, array, -1100); },
       said(poisoned, "4400 bytes before the begin of 256 bytes")},
      {[=] { RunKernel(WriteGlobal, 1, 1, small, -1); },
       said(poisoned, "a kernel wrote .* of 12 bytes of device memory")},
      {[=] { RunKernel(WriteGlobal, 1, 1, small, 3); },
       said(poisoned, "a kernel wrote .* of 12 bytes of device memory")},
      {[=] { RunKernel(Recurse, 1, 1, depth); },
       said("stack-overflow|SEGV", "past the end of the thread's stack")},
  });
}

// Streams.

constexpr StreamOrder kLazy = {StreamOrder::Kind::kLazy};
constexpr StreamOrder kEager = {StreamOrder::Kind::kEager};

struct Stream {
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&get, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(get), cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get = nullptr;
};

struct Event {
  Event() { EXPECT_EQ(cudaEventCreateWithFlags(&get, cudaEventDisableTiming), cudaSuccess); }
  ~Event() { EXPECT_EQ(cudaEventDestroy(get), cudaSuccess); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get = nullptr;
};

struct PinnedWord {
  PinnedWord() { EXPECT_EQ(cudaMallocHost(&get, sizeof *get), cudaSuccess); }
  ~PinnedWord() { EXPECT_EQ(cudaFreeHost(get), cudaSuccess); }
  PinnedWord(const PinnedWord&) = delete;
  PinnedWord& operator=(const PinnedWord&) = delete;
  int* get = nullptr;
};

__global__ void AddOne(int* word) { ++*word; }
__global__ void Double(int* word) { *word *= 2; }

// The content of a word after a pinned word with 1 is copied to it and, before the wait, set to 2.
TEST(EmulatedStreams, APinnedBufferThatIsWrittenWhileACopyIsQueuedShowsInOneOrderOrTheOther) {
  const auto arrives = [](StreamOrder order) {
    const WithOrder with(order);
    const Stream stream;
    const DeviceArray<int> word(1);
    const PinnedWord host;
    *host.get = 1;
    EXPECT_EQ(cudaMemcpyAsync(word.data(), host.get, 4, cudaMemcpyHostToDevice, stream.get),
              cudaSuccess);
    *host.get = 2;
    EXPECT_EQ(cudaStreamSynchronize(stream.get), cudaSuccess);
    return word.Read()[0];
  };
  EXPECT_EQ(arrives(kLazy), 2) << "a buffer that is reused too early";
  EXPECT_EQ(arrives(kEager), 1) << "a buffer that is filled too late";
}

TEST(EmulatedStreams, ACopyToPinnedMemoryIsNotThereBeforeAWait) {
  const WithOrder lazy(kLazy);
  const Stream stream;
  const DeviceArray<int> word(std::vector<int>{41});
  const PinnedWord host;
  *host.get = -5;
  ASSERT_EQ(cuda::Launch(AddOne, 1, 1, stream.get, word.data()), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host.get, word.data(), 4, cudaMemcpyDeviceToHost, stream.get),
            cudaSuccess);
  EXPECT_EQ(*host.get, -5);
  ASSERT_EQ(cudaStreamSynchronize(stream.get), cudaSuccess);
  EXPECT_EQ(*host.get, 42);
}

// (3 + 1) · 2 where the second stream waits for the first's event, 3 · 2 + 1 where it does not.
TEST(EmulatedStreams, AnOrderShowsAMissingWaitForAnEvent) {
  enum class Waits { kNever, kForAnEarlierRecord, kForTheLastRecord };
  const auto run = [](StreamOrder order, Waits waits) {
    const WithOrder with(order);
    const Stream first, second;
    const Event event;
    const DeviceArray<int> word(std::vector<int>{3});
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const auto wait = [&] { EXPECT_EQ(cudaStreamWaitEvent(second.get, event.get), cudaSuccess); };
    EXPECT_EQ(cudaEventRecord(event.get, first.get), cudaSuccess);
    if (waits == Waits::kForAnEarlierRecord) wait();
    EXPECT_EQ(cuda::Launch(AddOne, 1, 1, first.get, word.data()), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event.get, first.get), cudaSuccess);
    if (waits == Waits::kForTheLastRecord) wait();
    EXPECT_EQ(cuda::Launch(Double, 1, 1, second.get, word.data()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(second.get), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(event.get), cudaSuccess);
    return word.Read()[0];
  };
  using Kind = StreamOrder::Kind;
  for (const StreamOrder order : std::vector<StreamOrder>{
           kLazy, kEager, {Kind::kDrawn, 1}, {Kind::kDrawn, 2}, {Kind::kDrawn, 3}}) {
    EXPECT_EQ(run(order, Waits::kForTheLastRecord), 8);
  }
  EXPECT_EQ(run(kLazy, Waits::kNever), 7);
  EXPECT_EQ(run(kLazy, Waits::kForAnEarlierRecord), 7);
}

// Launches, copies and memory.

TEST(EmulatedLaunch, RefusesShapesThatNoDeviceHas) {
  const DeviceArray<int> word(std::vector<int>{0});
  const auto launch = [&](dim3 grid, dim3 block) {
    return cuda::Launch(AddOne, grid, block, nullptr, word.data());
  };
  EXPECT_EQ(launch(0, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, dim3(512, 3)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 65536), 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 1), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "Launch has taken its error";
  EXPECT_EQ(word.Read(), std::vector<int>{1});
}

TEST(EmulatedMemory, RefusesWhatDoesNotFitItsArrays) {
  const DeviceArray<int> device(4);
  const PinnedWord pinned;
  std::vector<int> host(8);
  const auto copy = [](void* to, const void* from, size_t count, cudaMemcpyKind kind) {
    return cudaMemcpy(to, from, count * sizeof(int), kind);
  };
  EXPECT_EQ(copy(device.data(), host.data(), 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  for (const cudaError_t refused :
       {copy(device.data(), host.data(), 5, cudaMemcpyHostToDevice),
        copy(host.data(), device.data() + 2, 3, cudaMemcpyDefault),
        copy(pinned.get, device.data(), 2, cudaMemcpyDefault),
        copy(device.data(), host.data(), 1, cudaMemcpyDeviceToHost),
        copy(host.data(), device.data(), 1, cudaMemcpyHostToDevice),
        copy(host.data(), host.data() + 4, 1, cudaMemcpyDeviceToDevice),
        copy(nullptr, device.data(), 1, cudaMemcpyDefault), cudaMemset(host.data(), 0, 4),
        cudaMemset(device.data(), 0, 17), cudaFree(host.data()), cudaFree(device.data() + 1),
        cudaFree(pinned.get)}) {
    EXPECT_EQ(refused, cudaErrorInvalidValue);
  }
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(EmulatedMemory, BeginsAsNaN) {
  const DeviceArray<float> array(1000);
  for (const float value : array.Read()) EXPECT_TRUE(std::isnan(value));
}

struct Wide {
  int* word;
  int by;
};
__global__ void Add(const Wide wide) { *wide.word += wide.by; }

TEST(EmulatedMemoryDeathTest, RefusesToMixTheHostsMemoryAndTheDevices) {
  const DeviceArray<int> array(4);
  const std::unique_ptr<int> owned(new int(0));
  int *const device = array.data(), *const host = owned.get();
  const auto launch = [](auto* kernel, auto argument) {
    static_cast<void>(cuda::Launch(kernel, 1, 1, nullptr, argument));
  };
  std::vector<Mistake> mistakes = {
      {[=] { launch(AddOne, host); },
       "argument 0 of a kernel has the address of host memory in its byte 0"},
      {[=] { device[2] = 1; },
       kAddressSanitizer ? "SEGV" : "the host touched byte 8 of 16 bytes of device memory"},
  };
  if (kChecksStructs) {
    mistakes.push_back({[=] { launch(Add, Wide{host, 1}); }, "address of host memory"});
  }
  ExpectRefused(mistakes);
}

}  // namespace
}  // namespace longwave::emulation
