// The hash of ops.h for many segments in one launch: a block for each tile.
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/launch.cuh"

namespace longwave::cuda {
inline namespace hash_cu {

constexpr uint32_t kHashThreads = 256;

__global__ void __launch_bounds__(kHashThreads) HashKernel(const HashJob job) {
  LONGWAVE_SHARED(Exchange<kHashThreads>, exchange);
  const uint32_t number = job.tile_begin + blockIdx.x;  // in the layout
  const Tile tile = job.tiles[number];
  uint64_t sum = 0;
  const auto add = [&](uint64_t at) { sum += Mix64(Mix64(at) + __float_as_uint(job.theta[at])); };
  if (tile.rows == 1) {
    for (uint32_t c = threadIdx.x; c < tile.cols_valid; c += kHashThreads) add(tile.offset + c);
  } else {
    // A warp for each row.
    for (uint32_t r = Warp(); r < tile.rows_valid; r += kHashThreads / kWarpThreads) {
      const uint64_t row = tile.offset + static_cast<uint64_t>(r) * tile.row_stride;
      for (uint32_t c = Lane(); c < tile.cols_valid; c += kWarpThreads) add(row + c);
    }
  }
  sum = BlockSum<kHashThreads>(sum, exchange);
  // Sums modulo 2^64 do not depend on the order of the blocks.
  if (threadIdx.x == 0) {
    atomicAdd(&job.hashes[number / job.segment_tiles - job.segment_begin],
              static_cast<unsigned long long>(sum));
  }
}

}  // namespace hash_cu

cudaError_t Launch(const HashJob& job, cudaStream_t stream) {
  return Launch(HashKernel, job.tile_count, kHashThreads, stream, job);
}

}  // namespace longwave::cuda
