// The encoder of full-size tiles: one block of 64 threads for each tile, 64 values for each thread
// in registers. Each signal and each momentum is read once and the momentum written once: 12 bytes
// a parameter with one fp32 signal, 16 with the difference of two.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/transform_block.cuh"

namespace longwave::cuda {
inline namespace encode_block_cu {

struct EncodeShared {
  float x[kBlockSharedFloats];
  TileScratch<kBlockThreads, kBlockSentMax> scratch;
};
static_assert(kBlockSharedFloats >= kPaddedElementsMax);

// x[v] = s of this thread's elements, zero for padding.
template <typename Elements>
__device__ __forceinline__ void GatherSignal(const Signal& signal, const Elements& elements,
                                             float (&x)[kBlockValues]) {
  if (signal.b == nullptr) {
#pragma unroll
    for (uint32_t v = 0; v < kBlockValues; ++v) {
      x[v] = elements.IsValid(v) ? signal.a[elements.At(v)] : 0.0f;
    }
  } else {
#pragma unroll
    for (uint32_t v = 0; v < kBlockValues; ++v) {
      x[v] = 0;
      if (elements.IsValid(v)) {
        const uint64_t at = elements.At(v);
        x[v] = __fsub_rn(signal.a[at], signal.b[at]);
      }
    }
  }
#pragma unroll
  for (uint32_t v = 0; v < kBlockValues; ++v) x[v] = __fmul_rn(signal.scale, x[v]);
}

template <typename Shape>
__global__ void __launch_bounds__(kBlockThreads, Shape::kEncoders)
    EncodeBlockKernel(LONGWAVE_CONSTANT const EncodeJob job) {
  LONGWAVE_SHARED(EncodeShared, shared);
  if (!HasTile(job.tiles)) return;
  const uint32_t t = threadIdx.x;
  if (NumberOf(job.tiles) == 0) WriteHead<kBlockThreads>(RunOf(job.tiles).payload);

  float x[kBlockValues];
  TileReport report = {};
  {
    const Tile tile = TileOf(job.tiles);
    Prefetch(job.momentum + tile.coefficient_offset + 64 * t);
    Prefetch(job.momentum + tile.coefficient_offset + 64 * t + 32);
    GatherSignal(job.signal, BlockElements<Shape>(tile), x);
  }
#pragma unroll
  for (uint32_t v = 0; v < kBlockValues; ++v) {
    report.signal += Square(x[v]);
    if (Shape::kNorm != 1.0f) x[v] = __fmul_rn(Shape::kNorm, x[v]);
  }
  Shape::Forward(x, shared.x);
  {
    const float* const momentum = job.momentum + TileOf(job.tiles).coefficient_offset + t;
#pragma unroll
    for (uint32_t v = 0; v < kBlockValues; ++v) {
      x[v] = __fmaf_rn(RunOf(job.tiles).beta, momentum[64 * v], x[v]);
      report.momentum += Square(x[v]);
      shared.x[65 * v + t] = x[v];
    }
  }
  BlockSum<kBlockThreads>(report.signal, report.momentum, shared.scratch.exchange);
  report.finite = IsFiniteSum(report.momentum);
  if (t == 0) RunOf(job.tiles).reports[NumberOf(job.tiles)] = report;
  if (!report.finite) return;  // the whole block: the momentum stays as it was

  const double sent =
      QuantizeTile(job, kTileElementsMax, shared.x, shared.scratch,
                   [&](uint32_t k) { SelectLargestInRegisters(x, shared.x, k, shared.scratch); });
  const double sent_sum = BlockSum<kBlockThreads>(sent, shared.scratch.exchange);
  float* const momentum = job.momentum + TileOf(job.tiles).coefficient_offset + t;
#pragma unroll
  for (uint32_t v = 0; v < kBlockValues; ++v) momentum[64 * v] = shared.x[65 * v + t];
  if (t == 0) RunOf(job.tiles).reports[NumberOf(job.tiles)].sent = sent_sum;
}

}  // namespace encode_block_cu

cudaError_t LaunchEncodeGeneral(const EncodeJob& job, cudaStream_t stream);  // encode.cu

cudaError_t Launch(TileKernel kernel, const EncodeJob& job, cudaStream_t stream) {
  if (kernel == TileKernel::kGeneral) return LaunchEncodeGeneral(job, stream);
  return WithShape(kernel, [&](auto shape) {
    return Launch(EncodeBlockKernel<typename decltype(shape)::Type>, GridOf(job.tiles),
                  kBlockThreads, stream, job);
  });
}

}  // namespace longwave::cuda
