// The encoder of tiles of any shape, by the tables of the transform's stages.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/transform.cuh"

namespace longwave::cuda {
inline namespace encode_cu {

struct EncodeShared {
  float x[kPaddedElementsMax];
  float y[kPaddedElementsMax];
  TileScratch<kGeneralThreads, kTileElementsMax> scratch;
};

__global__ void __launch_bounds__(kGeneralThreads)
    EncodeKernel(LONGWAVE_CONSTANT const EncodeJob job) {
  LONGWAVE_SHARED(EncodeShared, shared);
  if (!HasTile(job.tiles)) return;
  const TileRun& run = RunOf(job.tiles);
  const uint32_t number = NumberOf(job.tiles);
  const Tile tile = TileOf(job.tiles);
  const uint32_t cols = tile.cols, size = tile.rows * cols;
  float* x = shared.x;
  float* y = shared.y;
  if (number == 0) WriteHead<kGeneralThreads>(run.payload);

  TileReport report = {};
  for (uint32_t e = threadIdx.x; e < size; e += kGeneralThreads) {
    const uint32_t row = e / cols, col = e % cols;
    float s = 0;
    if (row < tile.rows_valid && col < tile.cols_valid) {
      s = SignalAt(job.signal, tile.offset + static_cast<uint64_t>(row) * tile.row_stride + col);
    }
    x[e] = s;
    report.signal += Square(s);
  }
  __syncthreads();
  const float* spectrum = nullptr;
  if (job.spectrum != nullptr) {
    spectrum = job.spectrum + static_cast<size_t>(blockIdx.x) * kSpectrumFloats;
  } else if (job.tiles.plans != nullptr) {
    Forward(tile, job.tiles.plans, &x, &y);
  }

  float* const momentum = job.momentum + tile.coefficient_offset;
  for (uint32_t e = threadIdx.x; e < size; e += kGeneralThreads) {
    const float s = spectrum == nullptr ? x[e] : CoefficientOf(spectrum, e);
    const float m = FmaOnce(run.beta, momentum[e], s);
    report.momentum += Square(m);
    y[Padded(e)] = m;
  }
  BlockSum<kGeneralThreads>(report.signal, report.momentum, shared.scratch.exchange);
  report.finite = IsFiniteSum(report.momentum);
  if (!report.finite) {
    if (threadIdx.x == 0) run.reports[number] = report;
    return;  // the whole block: the momentum stays as it was
  }

  const double sent = QuantizeTile(job, size, y, shared.scratch,
                                   [&](uint32_t k) { SelectLargest(y, size, k, shared.scratch); });
  report.sent = BlockSum<kGeneralThreads>(sent, shared.scratch.exchange);
  for (uint32_t e = threadIdx.x; e < size; e += kGeneralThreads) momentum[e] = y[Padded(e)];
  if (threadIdx.x == 0) run.reports[number] = report;
}

}  // namespace encode_cu

cudaError_t LaunchEncodeGeneral(const EncodeJob& job, cudaStream_t stream) {
  return Launch(EncodeKernel, GridOf(job.tiles), kGeneralThreads, stream, job);
}

}  // namespace longwave::cuda
