#ifndef LONGWAVE_KERNELS_CUDA_SEGMENT_TILES_H_
#define LONGWAVE_KERNELS_CUDA_SEGMENT_TILES_H_

#include <algorithm>
#include <span>
#include <utility>

#include "common/layout/layout.h"
#include "common/wire/codec.h"
#include "common/wire/payload.h"
#include "kernels/cuda/buffers.h"
#include "kernels/cuda/jobs.h"
#include "kernels/host_bytes.h"

namespace longwave::cuda {

// The kernel that encodes and decodes a tile under a format.
inline TileKernel KernelOf(const Tile& tile, Transform transform, const PayloadFormat& format) {
  if (tile.size() != kTileSizeMax) return TileKernel::kGeneral;
  if (format.selection != Selection::kAll && format.k > kBlockSentMax) return TileKernel::kGeneral;
  if (tile.rows == 64 && tile.cols == 64) {
    return transform == Transform::kDct ? TileKernel::k64x64 : TileKernel::kFlat;
  }
  if (tile.rows == 32 && tile.cols == 128) {
    return transform == Transform::kDct ? TileKernel::k32x128 : TileKernel::kFlat;
  }
  if (tile.rows == 128 && tile.cols == 32) {
    return transform == Transform::kDct ? TileKernel::k128x32 : TileKernel::kFlat;
  }
  return tile.rows == 1 && transform == Transform::kNone ? TileKernel::kFlat : TileKernel::kGeneral;
}

// Where tiles have many sizes, a transit has the places of their parts.
inline size_t PlacesBytes(const PayloadLayout& layout) {
  return layout.tile_count() * sizeof(PayloadPlace);
}

// The payload that begins at byte `begin` of the transit's memory on the device. Writes the places,
// if job.places is not null then, to byte places_begin of the transit's memory on the host; the
// caller copies them.
PayloadJob PayloadIn(const Transit& transit, size_t begin, size_t places_begin,
                     const PayloadLayout& layout, uint64_t draw_key);

// Calls launch(kernel, first, count) for each run of neighbouring tiles with one kernel, in order.
// Ends at the first status that is not OK, and returns it.
template <typename F>
absl::Status ForEachRun(std::span<const Tile> tiles, Transform transform,
                        const PayloadFormat& format, const F& launch) {
  uint32_t first = 0;
  while (first < tiles.size()) {
    const TileKernel kernel = KernelOf(tiles[first], transform, format);
    uint32_t end = first + 1;
    while (end < tiles.size() && KernelOf(tiles[end], transform, format) == kernel) ++end;
    if (absl::Status status = launch(kernel, first, end - first); !status.ok()) return status;
    first = end;
  }
  return absl::OkStatus();
}

// The runs of a call's segments by kernel. launch(kernel, runs) is called for at most kRunsMax of
// one kernel; a launch of many runs costs the host what one of a single run does.
template <typename F>
class RunsByKernel {
 public:
  explicit RunsByKernel(const F& launch) : launch_(launch) {
    for (Runs& runs : runs_) runs.count = 0;
  }

  absl::Status Add(TileKernel kernel, const TileRun& run) {
    Runs& runs = runs_[static_cast<size_t>(kernel)];
    runs.of[runs.count++] = run;
    return runs.count == kRunsMax ? Launch(kernel) : absl::OkStatus();
  }
  absl::Status LaunchAll() {
    for (size_t k = 0; k < kTileKernels; ++k) {
      if (absl::Status status = Launch(static_cast<TileKernel>(k)); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  struct Runs {
    uint32_t count;
    TileRun of[kRunsMax];  // some kilobytes, which nothing has to clear
  };

  absl::Status Launch(TileKernel kernel) {
    Runs& runs = runs_[static_cast<size_t>(kernel)];
    if (runs.count == 0) return absl::OkStatus();
    return launch_(kernel, std::span<const TileRun>(runs.of, std::exchange(runs.count, 0)));
  }

  const F& launch_;
  Runs runs_[kTileKernels];
};

// The job's table of runs.
inline void SetRuns(std::span<const TileRun> runs, TilesJob& job) {
  job.run_count = static_cast<uint32_t>(runs.size());
  std::ranges::copy(runs, job.runs);
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_SEGMENT_TILES_H_
