// The threads of a block in the emulation: barriers, warps, shared memory, and refused mistakes.
#include "tests/emulation/block.h"

#include <numeric>

#include "tests/emulation/testing.h"

namespace longwave::emulation {
namespace {

constexpr unsigned kUndefinedWord = ~0u;

__global__ void CountVisits(unsigned* visits) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  atomicAdd(&visits[block * blockDim.x * blockDim.y + thread], 1u);
}

TEST(EmulatedBlock, RunsEveryThreadOfEveryBlockOnce) {
  for (const ThreadOrder order : ThreadOrders()) {
    const WithOrder with(order);
    const DeviceArray<unsigned> visits(std::vector<unsigned>(6 * 40, 0));
    RunKernel(CountVisits, dim3(2, 3), dim3(10, 4), visits.data());
    EXPECT_EQ(visits.Read(), std::vector<unsigned>(6 * 40, 1));
  }
}

__global__ void Votes(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  const int count = __syncthreads_count(t % 3 == 0);
  const int all = __syncthreads_and(t < 40), most = __syncthreads_and(t < 39);
  const int one = __syncthreads_or(t == 7), none = __syncthreads_or(t == 40);
  out[t] = count * 10000 + all * 1000 + most * 100 + one * 10 + none;
}

TEST(EmulatedBlock, BarriersCountAndCombineThePredicatesOfAllThreads) {
  for (const ThreadOrder order : ThreadOrders()) {
    const WithOrder with(order);
    const DeviceArray<int> out(40);
    RunKernel(Votes, 1, 40, out.data());
    EXPECT_EQ(out.Read(), std::vector<int>(40, 14 * 10000 + 1000 + 10));
  }
}

__global__ void Shuffles(double* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const double value = lane + 0.5;
  out[lane] = __shfl_sync(~0u, value, 5);
  out[32 + lane] = __shfl_sync(~0u, value, lane + 1, 8);
  out[64 + lane] = __shfl_up_sync(~0u, value, 3u);
  out[96 + lane] = __shfl_up_sync(~0u, value, 1u, 4);
  out[128 + lane] = __shfl_down_sync(~0u, value, 2u);
  out[160 + lane] = __shfl_down_sync(~0u, value, 2u, 16);
  out[192 + lane] = __shfl_xor_sync(~0u, value, 9);
}

TEST(EmulatedWarp, ShufflesGiveTheLaneThatCudaNamesOrOnesOwn) {
  for (const ThreadOrder order : ThreadOrders()) {
    const WithOrder with(order);
    const DeviceArray<double> out(224);
    RunKernel(Shuffles, 1, 32, out.data());
    const std::vector<double> got = out.Read();
    for (int lane = 0; lane < 32; ++lane) {
      const int wanted[] = {5,
                            lane / 8 * 8 + (lane + 1) % 8,
                            lane < 3 ? lane : lane - 3,
                            lane % 4 == 0 ? lane : lane - 1,
                            lane > 29 ? lane : lane + 2,
                            lane % 16 > 13 ? lane : lane + 2,
                            lane ^ 9};
      for (int i = 0; i < 7; ++i)
        EXPECT_EQ(got[i * 32 + lane], wanted[i] + 0.5) << i << " " << lane;
    }
  }
}

// Lanes of one warp on two ways at once, each with its own mask.
__global__ void Collectives(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  if (lane < 12) {
    constexpr unsigned kMask = 0xfff;
    out[threadIdx.x] =
        __ballot_sync(kMask, lane % 4 == 1) * 16 + (__any_sync(kMask, lane == 3) ? 8u : 0) +
        (__all_sync(kMask, lane < 12) ? 4u : 0) + (__any_sync(kMask, lane == 12) ? 2u : 0) +
        (__all_sync(kMask, lane != 3) ? 1u : 0);
  } else {
    constexpr unsigned kMask = 0xfffff000;
    const unsigned sum = __reduce_add_sync(kMask, lane);
    const int least = __reduce_min_sync(kMask, -static_cast<int>(lane));
    const unsigned most = __reduce_max_sync(kMask, lane ^ 1);
    const unsigned any = __reduce_or_sync(kMask, 1u << (lane - 12));
    const unsigned same = __match_any_sync(kMask, lane / 8);
    out[threadIdx.x] = sum == 430 && least == -31 && most == 31 && any == 0xfffff &&
                       same == ((0xffu << lane / 8 * 8) & kMask);
  }
}

TEST(EmulatedWarp, VotesAndReductionsAreOverTheLanesOfTheMask) {
  for (const ThreadOrder order : ThreadOrders()) {
    const WithOrder with(order);
    const DeviceArray<unsigned> out(64);
    RunKernel(Collectives, 1, 64, out.data());
    const std::vector<unsigned> got = out.Read();
    for (unsigned t = 0; t < 64; ++t) {
      EXPECT_EQ(got[t], t % 32 < 12 ? 0x222u * 16 + 8 + 4 : 1u) << t;
    }
  }
}

// The pattern of our kernels: scans within the warps by shuffles, their totals by shared memory.
__global__ void Scan(const unsigned* in, unsigned* out) {
  LONGWAVE_SHARED(unsigned[32], totals);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned sum = in[threadIdx.x];
  for (unsigned step = 1; step < 32; step *= 2) {
    const unsigned before = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += before;
  }
  if (lane == 31) totals[warp] = sum;
  __syncthreads();
  for (unsigned w = 0; w < warp; ++w) sum += totals[w];
  out[threadIdx.x] = sum;
}

TEST(EmulatedBlock, ScanOverWarpsAndSharedMemoryGivesTheSums) {
  std::vector<unsigned> in(256), wanted(256);
  for (unsigned i = 0; i < 256; ++i) in[i] = i * i % 37;
  std::partial_sum(in.begin(), in.end(), wanted.begin());
  for (const ThreadOrder order : ThreadOrders()) {
    const WithOrder with(order);
    const DeviceArray<unsigned> from(in), out(256);
    RunKernel(Scan, 1, 256, from.data(), out.data());
    EXPECT_EQ(out.Read(), wanted);
  }
}

__global__ void TakeTickets(unsigned* next, unsigned* tickets, float* sum, int* largest) {
  tickets[atomicAdd(next, 1u)] = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(sum, 0.5f);
  atomicMax(largest, static_cast<int>(threadIdx.x) - 100);
}

TEST(EmulatedBlock, AtomicsReturnWhatWasThereAndLoseNothing) {
  const DeviceArray<unsigned> next(std::vector<unsigned>{0}), tickets(96);
  const DeviceArray<float> sum(std::vector<float>{0});
  const DeviceArray<int> largest(std::vector<int>{-1000});
  RunKernel(TakeTickets, 2, 48, next.data(), tickets.data(), sum.data(), largest.data());
  std::vector<unsigned> got = tickets.Read(), wanted(96);
  std::sort(got.begin(), got.end());
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(got, wanted);
  EXPECT_EQ(sum.Read(), std::vector<float>{48});
  EXPECT_EQ(largest.Read(), std::vector<int>{-53});
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
  EXPECT_EQ(out.Read(), std::vector<unsigned>(3, kUndefinedWord));
}

// Neighbours: from below, and without the barrier that this needs.
__global__ void TakeFromBelow(bool barrier, unsigned* out) {
  LONGWAVE_SHARED(unsigned[64], values);
  values[threadIdx.x] = threadIdx.x;
  if (barrier) __syncthreads();
  out[threadIdx.x] = threadIdx.x == 0 ? 0 : values[threadIdx.x - 1];
}

TEST(EmulatedBlock, AnOrderShowsAMissingBarrier) {
  std::vector<unsigned> wanted(64, 0);
  std::iota(wanted.begin() + 1, wanted.end(), 0);
  for (const ThreadOrder order : ThreadOrders()) {
    const WithOrder with(order);
    const DeviceArray<unsigned> right(64), wrong(64);
    RunKernel(TakeFromBelow, 1, 64, true, right.data());
    EXPECT_EQ(right.Read(), wanted);
    RunKernel(TakeFromBelow, 1, 64, false, wrong.data());
    if (order.kind == ThreadOrder::Kind::kAscending) {
      EXPECT_EQ(wrong.Read(), wanted) << "the order that hides it";
    } else {
      EXPECT_NE(wrong.Read(), wanted);
    }
  }
}

// Refused mistakes.

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
__global__ void LeaveBeforeTheShuffle(int* out) {
  if (threadIdx.x == 9) return;
  out[threadIdx.x] = __shfl_sync(~0u, 1, 0);
}
__global__ void HalfAtTheBarrier(unsigned mask) {
  if (threadIdx.x < 16) {
    __syncwarp(mask);
  } else {
    __syncthreads();
  }
}
__global__ void OutsideTheMask() { __syncwarp(0xfffe); }
__global__ void TwoOperations(int* out) {
  out[threadIdx.x] = threadIdx.x < 16 ? __any_sync(~0u, 1) : __all_sync(~0u, 1);
}

TEST(EmulatedBlockDeathTest, RefusesWaitsThatCannotEnd) {
  const DeviceArray<int> out(64);
  EXPECT_DEATH(RunKernel(LeaveBeforeTheBarrier, 1, 64),
               "thread 0 is at the barrier of block_test.cc:[0-9]+, thread 20 has ended");
  EXPECT_DEATH(RunKernel(BarriersApart, 1, 64),
               "thread 0 is at the barrier of .*, thread 32 at that of ");
  EXPECT_DEATH(RunKernel(LeaveBeforeTheShuffle, 1, 32, out.data()),
               "thread 0 is at __shfl_sync of .* with the mask 0xffffffff, thread 9 has ended");
  EXPECT_DEATH(RunKernel(HalfAtTheBarrier, 1, 32, ~0u),
               "thread 0 is at __syncwarp of .*, thread 16 is at the barrier");
  EXPECT_DEATH(RunKernel(OutsideTheMask, 1, 16), "the mask leaves out lane 0, which calls");
  EXPECT_DEATH(RunKernel(HalfAtTheBarrier, 1, 16, ~0u), "the warp has 16 lanes only");
  EXPECT_DEATH(RunKernel(TwoOperations, 1, 32, out.data()), "with lanes in common");
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
  RunKernel(WriteShared, 1, 1, 4);
  const char* const poisoned = "use-after-poison";
  EXPECT_DEATH(RunKernel(WriteShared, 1, 1, 5),
               kAddressSanitizer ? poisoned : "20 bytes from the begin of a shared object of 20");
  EXPECT_DEATH(RunKernel(WriteShared, 1, 1, -1),
               kAddressSanitizer ? poisoned : "before the shared objects");

  const DeviceArray<float> array(64);  // the array ends with its page
  RunKernel(WriteGlobal, 1, 1, array.data(), 63);
  EXPECT_DEATH(RunKernel(WriteGlobal, 1, 1, array.data(), 64),
               kAddressSanitizer ? poisoned : "0 bytes past the end of 256 bytes of device memory");
  EXPECT_DEATH(RunKernel(WriteGlobal, 1, 1, array.data(), -1100),
               kAddressSanitizer ? poisoned : "4400 bytes before the begin of 256 bytes");
}

TEST(EmulatedBlockDeathTest, RefusesAStackThatOverflows) {
  const DeviceArray<int> depth(std::vector<int>{1});
  EXPECT_DEATH(RunKernel(Recurse, 1, 1, static_cast<volatile int*>(depth.data())),
               kAddressSanitizer ? "stack-overflow|SEGV" : "past the end of the thread's stack");
}

}  // namespace
}  // namespace longwave::emulation
