#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/transform.cuh"

namespace longwave::cuda {
namespace {

__global__ void __launch_bounds__(kBlockThreads) EncodeKernel(const EncodeLaunch launch) {
  LONGWAVE_SHARED(TileShared, shared);
  const TileJob& job = launch.jobs[blockIdx.x];
  const Selection selection = static_cast<Selection>(launch.selection);
  const ValueCodec codec = static_cast<ValueCodec>(launch.codec);
  const uint32_t size = job.rows * job.cols;
  float* x = shared.x;
  float* y = shared.y;

  for (uint32_t e = threadIdx.x; e < size; e += kBlockThreads) {
    const uint32_t row = e / job.cols, col = e % job.cols;
    float s = 0;
    if (row < job.rows_valid && col < job.cols_valid) {
      const uint64_t at = job.offset + static_cast<uint64_t>(row) * job.row_stride + col;
      s = SignalAt(launch.signal_a, launch.signal_b, launch.signal_is_bf16, launch.signal_scale,
                   at);
    }
    x[e] = s;
  }
  __syncthreads();
  TileReport report = {};
  report.signal = BlockSquareSum(x, size, shared.scratch);
  Forward(job, &x, &y);

  float* momentum = launch.momentum + job.coefficient_offset;
  uint32_t nonfinite = 0;
  for (uint32_t e = threadIdx.x; e < size; e += kBlockThreads) {
    x[e] = FmaOnce(launch.beta, momentum[e], x[e]);
    nonfinite |= MagnitudeBits(x[e]) >= 0x7f800000u;
  }
  // Its barriers also make x whole.
  report.finite = BlockMax(nonfinite, shared.scratch) == 0;
  if (!report.finite) {
    if (threadIdx.x == 0) launch.reports[blockIdx.x] = report;
    return;  // the whole block: the momentum stays as it was
  }
  report.momentum = BlockSquareSum(x, size, shared.scratch);

  if (selection == Selection::kTopK) {
    SelectLargest(x, size, job.count, reinterpret_cast<uint32_t*>(y), shared);
    WriteIndices(size, job.count, launch.payload + job.indices_at, shared);
  } else {
    SelectUnsent(selection, size, job.count, job.draw, shared);
  }
  for (uint32_t i = threadIdx.x; i < job.count; i += kBlockThreads) y[i] = x[shared.indices[i]];
  __syncthreads();
  uint16_t scale_code = 0;
  if (HasScale(codec)) {
    scale_code = FitScale(codec, y, job.count, launch.scale_code_max, shared);
    if (threadIdx.x == 0) {
      launch.payload[job.scale_at] = static_cast<unsigned char>(scale_code);
      launch.payload[job.scale_at + 1] = static_cast<unsigned char>(scale_code >> 8);
    }
  }
  WriteValues(codec, job.count, scale_code, y, launch.payload + job.values_at);
  report.sent = BlockSquareSum(y, job.count, shared.scratch);

  for (uint32_t i = threadIdx.x; i < job.count; i += kBlockThreads) {
    float& residual = x[shared.indices[i]];
    residual = FmaOnce(-launch.alpha, y[i], residual);
  }
  __syncthreads();
  for (uint32_t e = threadIdx.x; e < size; e += kBlockThreads) momentum[e] = x[e];
  if (threadIdx.x == 0) launch.reports[blockIdx.x] = report;
}

}  // namespace

cudaError_t Launch(const EncodeLaunch& launch, cudaStream_t stream) {
  return Launch(EncodeKernel, launch.tile_count, kBlockThreads, 0, stream, launch);
}

}  // namespace longwave::cuda
