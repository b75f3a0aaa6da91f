// The optimizer's kernels: each reads and writes every element once. The arithmetic uses intrinsics
// that round once and never fuse, so that it equals the CPU's to the bit.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/optimizer.h"

namespace longwave::cuda {
inline namespace optimizer_cu {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarp = 32;
// Elements for each thread: independent, so that their loads overlap.
constexpr uint32_t kEach = 4;
static_assert(kSquareSumLanes == kWarp && kPairSumWidth == kThreads);

uint32_t Blocks(uint64_t count, uint64_t each) {
  return static_cast<uint32_t>((count + each - 1) / each);
}

__device__ inline void AdamWElement(const AdamWArgs& a, uint64_t i) {
  const float g = a.gradient[i];
  const float m = __fadd_rn(__fmul_rn(a.beta1, a.m[i]), __fmul_rn(a.one_minus_beta1, g));
  const float v =
      __fadd_rn(__fmul_rn(a.beta2, a.v[i]), __fmul_rn(a.one_minus_beta2, __fmul_rn(g, g)));
  a.m[i] = m;
  a.v[i] = v;
  const float root = __fadd_rn(__fmul_rn(__fsqrt_rn(v), a.root_scale), a.epsilon);
  a.theta[i] = __fsub_rn(__fmul_rn(a.theta[i], a.keep), __fmul_rn(a.step_size, __fdiv_rn(m, root)));
}

__global__ void __launch_bounds__(kThreads) AdamWKernel(const AdamWArgs args) {
  const uint64_t begin = uint64_t{blockIdx.x} * (kThreads * kEach) + threadIdx.x;
  for (uint32_t j = 0; j < kEach; ++j) {
    const uint64_t i = begin + j * kThreads;
    if (i < args.count) AdamWElement(args, i);
  }
}

__global__ void __launch_bounds__(kThreads) ScaleKernel(uint64_t count, float* x, float scale) {
  const uint64_t begin = uint64_t{blockIdx.x} * (kThreads * kEach) + threadIdx.x;
  for (uint32_t j = 0; j < kEach; ++j) {
    const uint64_t i = begin + j * kThreads;
    if (i < count) x[i] = __fmul_rn(x[i], scale);
  }
}

__global__ void __launch_bounds__(kThreads)
    BlendKernel(uint64_t count, float* theta, const float* anchor, const float* base, float alpha) {
  const uint64_t begin = uint64_t{blockIdx.x} * (kThreads * kEach) + threadIdx.x;
  for (uint32_t j = 0; j < kEach; ++j) {
    const uint64_t i = begin + j * kThreads;
    if (i >= count) return;
    theta[i] = __fmaf_rn(alpha, __fsub_rn(theta[i], base[i]), anchor[i]);
  }
}

// Adds neighbouring lanes in pairs, pairs in pairs and so on; every lane gets the warp's sum.
// Addition is commutative, so the order within a pair has no effect.
__device__ inline double WarpPairSum(double value, uint32_t lanes) {
  for (uint32_t step = 1; step < lanes; step *= 2) {
    value = __dadd_rn(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  return value;
}

// A warp for each chunk.
__global__ void __launch_bounds__(kThreads)
    SquareSumsKernel(uint64_t count, const float* x, double* sums) {
  const uint32_t lane = threadIdx.x % kWarp;
  const uint64_t chunk = uint64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  const uint64_t begin = chunk * kSquareSumChunk;
  if (begin >= count) return;  // the whole warp
  const uint64_t end = min(static_cast<unsigned long long>(count),
                           static_cast<unsigned long long>(begin + kSquareSumChunk));
  double sum = 0;
  for (uint64_t i = begin + lane; i < end; i += kSquareSumLanes) {
    const double value = x[i];
    sum = __dadd_rn(sum, __dmul_rn(value, value));
  }
  sum = WarpPairSum(sum, kWarp);
  if (lane == 0) sums[chunk] = sum;
}

__global__ void __launch_bounds__(kThreads)
    PairSumsKernel(uint64_t count, const double* from, double* to) {
  constexpr uint32_t kWarps = kThreads / kWarp;
  LONGWAVE_SHARED(double[kWarps], warps);
  const uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  const uint32_t lane = threadIdx.x % kWarp;
  const double sum = WarpPairSum(i < count ? from[i] : 0.0, kWarp);
  if (lane == 0) warps[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  const double total = WarpPairSum(lane < kWarps ? warps[lane] : 0.0, kWarps);
  if (lane == 0) to[blockIdx.x] = total;
}

}  // namespace optimizer_cu

cudaError_t LaunchAdamW(const AdamWArgs& args, cudaStream_t stream) {
  return Launch(AdamWKernel, Blocks(args.count, kThreads * kEach), kThreads, stream, args);
}

cudaError_t LaunchScale(const ScaleArgs& args, cudaStream_t stream) {
  return Launch(ScaleKernel, Blocks(args.count, kThreads * kEach), kThreads, stream, args.count,
                args.x, args.scale);
}

cudaError_t LaunchBlend(const BlendArgs& args, cudaStream_t stream) {
  const uint64_t count = args.end - args.begin;
  return Launch(BlendKernel, Blocks(count, kThreads * kEach), kThreads, stream, count,
                args.theta + args.begin, args.anchor + args.begin, args.base + args.begin,
                args.alpha);
}

cudaError_t LaunchSquareSums(uint64_t count, const float* x, double* sums, cudaStream_t stream) {
  constexpr uint64_t kBlockElements = uint64_t{kSquareSumChunk} * (kThreads / kWarp);
  return Launch(SquareSumsKernel, Blocks(count, kBlockElements), kThreads, stream, count, x, sums);
}

cudaError_t LaunchPairSums(uint64_t count, const double* from, double* to, cudaStream_t stream) {
  return Launch(PairSumsKernel, Blocks(count, kPairSumWidth), kThreads, stream, count, from, to);
}

}  // namespace longwave::cuda
