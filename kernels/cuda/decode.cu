#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/transform.cuh"
#include "kernels/ops.h"

namespace longwave::cuda {
namespace {

// The update rules of ops.h for the element at `at` of the flat arrays.
__device__ inline void UpdateElement(const DecodeUpdateLaunch& launch, uint64_t at, float u) {
  const UpdateKind rule = static_cast<UpdateKind>(launch.update);
  if (rule == UpdateKind::kInner) {
    launch.gradient[at] = u;
    return;
  }
  float theta = launch.theta[at];
  if (launch.keep != 1.0f) theta = MulOnce(theta, launch.keep);
  switch (rule) {
    case UpdateKind::kSgd:
      theta = FmaOnce(-launch.eta, u, theta);
      break;
    case UpdateKind::kSign:
      theta = u > 0 ? theta - launch.eta : (u < 0 ? theta + launch.eta : theta);
      break;
    case UpdateKind::kNesterov: {
      const float v = FmaOnce(launch.mu, launch.velocity[at], u);
      launch.velocity[at] = v;
      theta = FmaOnce(-launch.eta, FmaOnce(launch.mu, v, u), theta);
      break;
    }
    case UpdateKind::kLocal: {
      const float s = SignalAt(launch.signal_a, launch.signal_b, launch.signal_is_bf16,
                               launch.signal_scale, at);
      theta = FmaOnce(-launch.eta, FmaOnce(launch.beta, u, s), theta);
      break;
    }
    case UpdateKind::kInner:
      break;
  }
  launch.theta[at] = theta;
}

__global__ void __launch_bounds__(kBlockThreads)
    DecodeUpdateKernel(const DecodeUpdateLaunch launch) {
  LONGWAVE_SHARED(TileShared, shared);
  const TileJob& job = launch.jobs[blockIdx.x];
  const ValueCodec codec = static_cast<ValueCodec>(launch.codec);
  const bool local = static_cast<UpdateKind>(launch.update) == UpdateKind::kLocal;
  const uint32_t size = job.rows * job.cols;
  float* x = shared.x;
  float* y = shared.y;

  ReadSelection(static_cast<Selection>(launch.selection), job, launch.payload, shared);
  const uint16_t scale_code = ReadScale(codec, job, launch.payload);
  float* momentum = local ? launch.momentum + job.coefficient_offset : nullptr;
  for (uint32_t e = threadIdx.x; e < size; e += kBlockThreads) x[e] = local ? momentum[e] : 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < job.count; i += kBlockThreads) {
    const uint32_t index = shared.indices[i];
    const float value = ReadValue(codec, i, scale_code, launch.payload + job.values_at);
    x[index] = local ? x[index] + value : value;
    if (local) momentum[index] = x[index];
  }
  __syncthreads();
  Inverse(job, &x, &y);
  const uint32_t valid = job.rows_valid * job.cols_valid;
  for (uint32_t e = threadIdx.x; e < valid; e += kBlockThreads) {
    const uint32_t row = e / job.cols_valid, col = e % job.cols_valid;
    UpdateElement(launch, job.offset + static_cast<uint64_t>(row) * job.row_stride + col,
                  x[row * job.cols + col]);
  }
}

__global__ void __launch_bounds__(kBlockThreads) RestoreKernel(const RestoreLaunch launch) {
  LONGWAVE_SHARED(TileShared, shared);
  const TileJob& job = launch.jobs[blockIdx.x];
  const ValueCodec codec = static_cast<ValueCodec>(launch.codec);
  ReadSelection(static_cast<Selection>(launch.selection), job, launch.payload, shared);
  const uint16_t scale_code = ReadScale(codec, job, launch.payload);
  float* momentum = launch.momentum + job.coefficient_offset;
  for (uint32_t i = threadIdx.x; i < job.count; i += kBlockThreads) {
    float& m = momentum[shared.indices[i]];
    m = FmaOnce(launch.alpha, ReadValue(codec, i, scale_code, launch.payload + job.values_at), m);
  }
}

__global__ void __launch_bounds__(kBlockThreads) HashKernel(const HashLaunch launch) {
  LONGWAVE_SHARED(uint64_t[kBlockThreads], scratch);
  const TileJob& job = launch.jobs[blockIdx.x];
  const uint32_t valid = job.rows_valid * job.cols_valid;
  uint64_t sum = 0;
  for (uint32_t e = threadIdx.x; e < valid; e += kBlockThreads) {
    const uint32_t row = e / job.cols_valid, col = e % job.cols_valid;
    const uint64_t at = job.offset + static_cast<uint64_t>(row) * job.row_stride + col;
    sum += Mix64(Mix64(at) + __float_as_uint(launch.theta[at]));
  }
  sum = BlockSum(sum, scratch);
  // Sums modulo 2^64: the order of the blocks changes nothing.
  if (threadIdx.x == 0) atomicAdd(launch.hash, static_cast<unsigned long long>(sum));
}

}  // namespace

cudaError_t Launch(const DecodeUpdateLaunch& launch, cudaStream_t stream) {
  return Launch(DecodeUpdateKernel, launch.tile_count, kBlockThreads, 0, stream, launch);
}

cudaError_t Launch(const RestoreLaunch& launch, cudaStream_t stream) {
  return Launch(RestoreKernel, launch.tile_count, kBlockThreads, 0, stream, launch);
}

cudaError_t Launch(const HashLaunch& launch, cudaStream_t stream) {
  return Launch(HashKernel, launch.tile_count, kBlockThreads, 0, stream, launch);
}

}  // namespace longwave::cuda
