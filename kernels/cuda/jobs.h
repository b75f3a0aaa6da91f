#ifndef LONGWAVE_KERNELS_CUDA_JOBS_H_
#define LONGWAVE_KERNELS_CUDA_JOBS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/layout/layout.h"
#include "kernels/dct_stage.h"
#include "kernels/ops.h"

namespace longwave::cuda {

// The kernels' arguments: plain structures, passed by value, with pointers into device memory. A
// kernel takes a run of neighbouring tiles of one segment, with one block for each tile.

// The offsets of a tile's parts in its payload, in bytes.
struct PayloadPlace {
  uint32_t indices, values;
};

// A segment's payload on the device.
struct PayloadJob {
  unsigned char* bytes;
  const PayloadPlace* places;  // of each tile; null if all tiles have one size, and strides suffice
  uint32_t indices_begin, indices_stride;
  uint32_t values_begin, values_stride;
  uint32_t indices_end;  // a gap follows up to a multiple of 8
  uint32_t tile_count;
  uint64_t draw_key;  // SelectionKey
  uint16_t k;         // of the format
  uint16_t scale_code_max;
  uint8_t selection, codec;  // Selection, ValueCodec
};

// The tiles of a launch: number `first` of the segment and those after it, one a block.
struct TilesJob {
  const Tile* tiles;         // the layout's
  uint32_t segment_begin;    // the segment's first tile in it
  uint32_t first, count;     // within the segment
  const DctPlanView* plans;  // of length n: 2n forward, 2n + 1 inverse; null without a transform
};

struct TileReport {
  double signal, momentum, sent;
  uint64_t finite;  // whether all of m̂ is finite; if not, the sums are invalid
};

struct EncodeJob {
  TilesJob tiles;
  PayloadJob payload;
  Signal signal;
  float beta, alpha;
  float* momentum;
  TileReport* reports;  // of the segment's tiles
  const float*
      spectrum;  // of an FFT of the launch's tiles (fft.h), or null: the kernel's own stages
};

struct RestoreJob {
  TilesJob tiles;
  PayloadJob payload;
  float alpha;
  float* momentum;
};

struct DecodeJob {
  TilesJob tiles;
  PayloadJob payload;
  const float* basis;  // DctBasis of dct_plan.h for tiles of 64 × 64 by sums, else null
  uint8_t update;      // UpdateKind
  float eta, mu, keep, beta;
  float* theta;
  float* velocity;
  float* gradient;
  float* momentum;
  Signal signal;
};

struct HashJob {
  const Tile* tiles;
  uint32_t tile_begin, tile_count;
  uint32_t segment_begin, segment_tiles;
  const float* theta;
  unsigned long long* hashes;  // zero before the launch
};

// The kernel for a tile.
enum class TileKernel : uint8_t {
  kGeneral,  // any shape, by the plans' tables
  kFlat,     // 4096 coefficients, equal to the elements
  k64x64,    // the cosine transform of such blocks, in registers
  k32x128,
  k128x32,
};

// Launches on `stream`. The result is that of the launch, not of the kernel.
cudaError_t Launch(TileKernel kernel, const EncodeJob& job, cudaStream_t stream);
cudaError_t Launch(TileKernel kernel, const DecodeJob& job, cudaStream_t stream);
cudaError_t Launch(const RestoreJob& job, cudaStream_t stream);
cudaError_t Launch(const HashJob& job, cudaStream_t stream);

// The limit of a tile's sent coefficients for the specialized kernels.
inline constexpr uint32_t kBlockSentMax = 2048;

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_JOBS_H_
