// The decoder of full-size tiles: one block of 64 threads for each tile, 64 values for each thread
// in registers. Each parameter is read once and written once: 8 bytes a parameter for sgd and sign,
// 16 for Nesterov, 4 for the inner optimizer's gradient.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/transform_block.cuh"
#include "kernels/cuda/update.cuh"

namespace longwave::cuda {
inline namespace decode_block_cu {

struct DecodeShared {
  float x[kBlockSharedFloats];
  TileScratch<kBlockThreads, kBlockSentMax> scratch;
};

// Elements of each thread whose loads are in flight at a time. These suffice, since the kernel's
// first instructions prefetch the lines, and are few enough for their addresses to fit registers.
constexpr uint32_t kBatch = 8;

// Blocks for each multiprocessor: 128 registers for each thread.
constexpr uint32_t kDecoders = 8;

template <UpdateKind kRule, typename Elements>
__device__ __forceinline__ void UpdateTile(const DecodeJob& job, const Elements& elements,
                                           const float (&u)[kBlockValues]) {
#pragma unroll
  for (uint32_t base = 0; base < kBlockValues; base += kBatch) {
    // Reads a whole batch before writing any of it, since the compiler cannot know that the
    // addresses differ.
    ElementState state[kBatch];
#pragma unroll
    for (uint32_t e = 0; e < kBatch; ++e) {
      if (elements.IsValid(base + e)) state[e] = LoadState<kRule>(job, elements.At(base + e));
    }
#pragma unroll
    for (uint32_t e = 0; e < kBatch; ++e) {
      if (elements.IsValid(base + e)) {
        StoreState<kRule>(job, elements.At(base + e), Updated<kRule>(job, u[base + e], state[e]));
      }
    }
  }
}

template <typename Shape>
__global__ void __launch_bounds__(kBlockThreads, kDecoders)
    DecodeBlockKernel(LONGWAVE_CONSTANT const DecodeJob job) {
  LONGWAVE_SHARED(DecodeShared, shared);
  if (!HasTile(job.tiles)) return;
  const uint32_t t = threadIdx.x;
  // Reread below: in registers beside the values, it would make the compiler spill.
  const Tile* const tile = &TileOf(job.tiles);
  const UpdateKind update = static_cast<UpdateKind>(job.update);
  const bool local = update == UpdateKind::kLocal;
  {
    const BlockElements<Shape> elements(*tile);
    if (update != UpdateKind::kInner) elements.PrefetchFrom(job.theta);
    if (update == UpdateKind::kNesterov) elements.PrefetchFrom(job.velocity);
  }

  float* const momentum = local ? job.momentum + tile->coefficient_offset : nullptr;
  if (local) {
#pragma unroll
    for (uint32_t v = 0; v < kBlockValues; ++v) shared.x[65 * v + t] = momentum[64 * v + t];
  } else {
#pragma unroll
    for (uint32_t v = 0; v < kBlockValues; ++v) shared.x[65 * v + t] = 0;
  }
  __syncthreads();
  ForEachSent(job.tiles, kTileElementsMax, shared.scratch, [&](uint32_t index, float value) {
    float& x = shared.x[Padded(index)];
    x = local ? __fadd_rn(x, value) : value;
    if (local) momentum[index] = x;
  });
  __syncthreads();

  float x[kBlockValues];
#pragma unroll
  for (uint32_t v = 0; v < kBlockValues; ++v) {
    x[v] = shared.x[65 * v + t];
    if (Shape::kNorm != 1.0f) x[v] = __fmul_rn(Shape::kNorm, x[v]);
  }
  __syncthreads();
  Shape::Inverse(x, shared.x);
  const BlockElements<Shape> elements(*tile);
  WithRule(
      job.update, [&](auto rule) __attribute__((always_inline)) {
        UpdateTile<decltype(rule)::kRule>(job, elements, x);
      });
}

// Tiles of 64 × 64 by the sums of dct_plan.h: warp 0 has the even halves of the rows and warp 1 the
// odd ones, each thread a column of its half. At the end each warp has both halves of 32 rows.
struct BlockHalves {
  static constexpr uint32_t kCols = 64;
  static __device__ uint32_t Row(uint32_t v) { return 32 * Warp() + v % 32; }
  static __device__ uint32_t Col(uint32_t v) { return v < 32 ? Lane() : 63 - Lane(); }
};

struct SumsShared {
  float x[kTileElementsMax];  // sent coefficients; the others are undefined
  // The sent coefficients, for each parity of the frequency along and each frequency down: bit 31 −
  // h is frequency 2·h, or 2·h + 1, along.
  uint32_t sent[2][64];
  TileScratch<kBlockThreads, kBlockSentMax> scratch;
};

__device__ __forceinline__ void SumHalves(const float* basis, const SumsShared& shared,
                                          float (&x)[kBlockValues]) {
  const uint32_t parity = Warp(), lane = Lane();
#pragma unroll
  for (uint32_t i = 0; i < 64; ++i) {
    float sum = 0;
    // A loop for all lanes, since the block shares the sent coefficients.
    for (uint32_t left = shared.sent[parity][i]; left != 0;) {
      const uint32_t h = static_cast<uint32_t>(__clz(static_cast<int>(left)));
      const uint32_t j = 2 * h + parity;
      left &= ~(0x80000000u >> h);
      sum = __fmaf_rn(basis[j * 32 + lane], shared.x[j * 64 + i], sum);
    }
    x[i] = sum;
  }
}

// Exchanges values so that a thread goes from one half of each row to both halves of every second
// half of the rows, in BlockHalves' order. room: 2048.
__device__ __forceinline__ void JoinHalves(float (&x)[kBlockValues], float* room) {
  const uint32_t lane = Lane();
  const bool has_even = Warp() == 0;
  float* const given = room + 1024 * Warp();
  const float* const taken = room + 1024 * (1 - Warp());
#pragma unroll
  for (uint32_t r = 0; r < 32; ++r) given[r * 32 + lane] = has_even ? x[32 + r] : x[r];
  __syncthreads();
#pragma unroll
  for (uint32_t r = 0; r < 32; ++r) {
    const float mine = has_even ? x[r] : x[32 + r], other = taken[r * 32 + lane];
    const float even = has_even ? mine : other, odd = has_even ? other : mine;
    x[r] = __fadd_rn(even, odd);
    x[32 + r] = __fsub_rn(even, odd);
  }
}

__global__ void __launch_bounds__(kBlockThreads, kDecoders)
    DecodeSumsKernel(LONGWAVE_CONSTANT const DecodeJob job) {
  LONGWAVE_SHARED(SumsShared, shared);
  if (!HasTile(job.tiles)) return;
  const Tile* const tile = &TileOf(job.tiles);
  const UpdateKind update = static_cast<UpdateKind>(job.update);
  {
    const BlockElements<BlockHalves> elements(*tile);
    if (update != UpdateKind::kInner) elements.PrefetchFrom(job.theta);
    if (update == UpdateKind::kNesterov) elements.PrefetchFrom(job.velocity);
  }

  shared.sent[0][threadIdx.x] = 0;
  shared.sent[1][threadIdx.x] = 0;
  __syncthreads();
  ForEachSent(job.tiles, kTileElementsMax, shared.scratch, [&](uint32_t index, float value) {
    const uint32_t i = index % 64, j = index / 64;
    shared.x[index] = __fmul_rn(kBlockNorm, value);
    atomicOr(&shared.sent[j % 2][i], 0x80000000u >> (j / 2));
  });
  __syncthreads();

  float x[kBlockValues];
  SumHalves(job.basis, shared, x);
  Dct2<64>::Inverse(x);
  __syncthreads();
  JoinHalves(x, shared.x);
  const BlockElements<BlockHalves> elements(*tile);
  WithRule(
      job.update, [&](auto rule) __attribute__((always_inline)) {
        UpdateTile<decltype(rule)::kRule>(job, elements, x);
      });
}

}  // namespace decode_block_cu

cudaError_t LaunchDecodeGeneral(const DecodeJob& job, cudaStream_t stream);  // decode.cu

cudaError_t Launch(TileKernel kernel, const DecodeJob& job, cudaStream_t stream) {
  if (kernel == TileKernel::kGeneral) return LaunchDecodeGeneral(job, stream);
  if (kernel == TileKernel::k64x64 && job.basis != nullptr) {
    return Launch(DecodeSumsKernel, GridOf(job.tiles), kBlockThreads, stream, job);
  }
  return WithShape(kernel, [&](auto shape) {
    return Launch(DecodeBlockKernel<typename decltype(shape)::Type>, GridOf(job.tiles),
                  kBlockThreads, stream, job);
  });
}

}  // namespace longwave::cuda
