// The decoder of tiles of any shape, with the tables of the transform's stages, and the kernel that
// restores a payload.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/transform.cuh"
#include "kernels/cuda/update.cuh"

namespace longwave::cuda {
inline namespace decode_cu {

using GeneralScratch = TileScratch<kGeneralThreads, kTileElementsMax>;

struct DecodeShared {
  float x[kTileElementsMax];
  float y[kTileElementsMax];
  GeneralScratch scratch;
};

__global__ void __launch_bounds__(kGeneralThreads)
    DecodeKernel(LONGWAVE_CONSTANT const DecodeJob job) {
  LONGWAVE_SHARED(DecodeShared, shared);
  if (!HasTile(job.tiles)) return;
  const Tile tile = TileOf(job.tiles);
  const bool local = static_cast<UpdateKind>(job.update) == UpdateKind::kLocal;
  const uint32_t size = tile.rows * tile.cols;
  float* x = shared.x;
  float* y = shared.y;

  float* const momentum = local ? job.momentum + tile.coefficient_offset : nullptr;
  for (uint32_t e = threadIdx.x; e < size; e += kGeneralThreads) x[e] = local ? momentum[e] : 0;
  __syncthreads();
  ForEachSent(job.tiles, size, shared.scratch, [&](uint32_t index, float value) {
    x[index] = local ? __fadd_rn(x[index], value) : value;
    if (local) momentum[index] = x[index];
  });
  __syncthreads();
  if (job.tiles.plans != nullptr) Inverse(tile, job.tiles.plans, &x, &y);
  WithRule(job.update, [&](auto rule) {
    constexpr UpdateKind kRule = decltype(rule)::kRule;
    const uint32_t valid = uint32_t{tile.rows_valid} * tile.cols_valid;
    for (uint32_t e = threadIdx.x; e < valid; e += kGeneralThreads) {
      const uint32_t row = e / tile.cols_valid, col = e % tile.cols_valid;
      const uint64_t at = tile.offset + static_cast<uint64_t>(row) * tile.row_stride + col;
      StoreState<kRule>(job, at,
                        Updated<kRule>(job, x[row * tile.cols + col], LoadState<kRule>(job, at)));
    }
  });
}

__global__ void __launch_bounds__(kGeneralThreads)
    RestoreKernel(LONGWAVE_CONSTANT const RestoreJob job) {
  LONGWAVE_SHARED(GeneralScratch, scratch);
  if (!HasTile(job.tiles)) return;
  const Tile tile = TileOf(job.tiles);
  const uint32_t size = tile.rows * tile.cols;
  float* const momentum = job.momentum + tile.coefficient_offset;
  ForEachSent(job.tiles, size, scratch, [&](uint32_t index, float value) {
    momentum[index] = __fmaf_rn(job.alpha, value, momentum[index]);
  });
}

}  // namespace decode_cu

cudaError_t LaunchDecodeGeneral(const DecodeJob& job, cudaStream_t stream) {
  return Launch(DecodeKernel, GridOf(job.tiles), kGeneralThreads, stream, job);
}

cudaError_t Launch(const RestoreJob& job, cudaStream_t stream) {
  return Launch(RestoreKernel, GridOf(job.tiles), kGeneralThreads, stream, job);
}

}  // namespace longwave::cuda
