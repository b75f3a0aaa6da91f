#ifndef LONGWAVE_KERNELS_CUDA_JOBS_H_
#define LONGWAVE_KERNELS_CUDA_JOBS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "common/layout/layout.h"
#include "kernels/dct_stage.h"
#include "kernels/ops.h"

namespace longwave::cuda {

// The kernels' arguments: plain structures, passed by value, with pointers into device memory. A
// kernel takes up to kRunsMax runs of neighbouring tiles, each of one segment: a row of the grid
// for each run, with one block for each tile.

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

struct TileReport {
  double signal, momentum, sent;
  uint64_t finite;  // whether all of m̂ is finite; if not, the sums are invalid
};

// Number `first` of a segment's tiles and those after it.
struct TileRun {
  PayloadJob payload;
  uint32_t segment_begin;  // the segment's first tile in the layout
  uint32_t first, count;   // within the segment
  float beta;              // the encoder's
  TileReport* reports;     // the encoder's, of the segment's tiles
};

// The runs are the launch's table of segments: constants, which blocks read from the kernel's
// arguments. With these the largest job stays below the 4 KB of arguments that every device takes.
inline constexpr uint32_t kRunsMax = 32;

struct TilesJob {
  const Tile* tiles;         // the layout's
  const DctPlanView* plans;  // of length n: 2n forward, 2n + 1 inverse; null without a transform
  uint32_t run_count;
  TileRun runs[kRunsMax];
};

struct EncodeJob {
  TilesJob tiles;
  Signal signal;
  float alpha;
  float* momentum;
  const float*
      spectrum;  // of an FFT of the only run's tiles (fft.h), or null: the kernel's own stages
};

struct RestoreJob {
  TilesJob tiles;
  float alpha;
  float* momentum;
};

struct DecodeJob {
  TilesJob tiles;
  const float* basis;  // DctBasis of dct_plan.h for tiles of 64 × 64 by sums, else null
  uint8_t update;      // UpdateKind
  float eta, mu, keep, beta;
  float* theta;
  float* velocity;
  float* gradient;
  float* momentum;
  Signal signal;
};
static_assert(sizeof(EncodeJob) <= 4096 && sizeof(DecodeJob) <= 4096);

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
inline constexpr size_t kTileKernels = 5;

// Launches on `stream`. The result is that of the launch, not of the kernel.
cudaError_t Launch(TileKernel kernel, const EncodeJob& job, cudaStream_t stream);
cudaError_t Launch(TileKernel kernel, const DecodeJob& job, cudaStream_t stream);
cudaError_t Launch(const RestoreJob& job, cudaStream_t stream);
cudaError_t Launch(const HashJob& job, cudaStream_t stream);

// The limit of a tile's sent coefficients for the specialized kernels.
inline constexpr uint32_t kBlockSentMax = 2048;

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_JOBS_H_
