#ifndef LONGWAVE_KERNELS_CUDA_SEGMENT_TILES_H_
#define LONGWAVE_KERNELS_CUDA_SEGMENT_TILES_H_

#include <span>

#include "common/layout/layout.h"
#include "common/wire/codec.h"
#include "common/wire/payload.h"
#include "kernels/cuda/buffers.h"
#include "kernels/cuda/jobs.h"

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

// A transit has a payload and behind it, where tiles have many sizes, the places of their parts.
size_t PlacesBegin(const PayloadLayout& layout);
size_t BytesWithPlaces(const PayloadLayout& layout);

// The payload that begins at byte `begin` of the transit's memory on the device. Writes the places,
// if job.places is not null then, to the transit's memory on the host; the caller copies them.
PayloadJob PayloadIn(const Transit& transit, size_t begin, const PayloadLayout& layout,
                     uint64_t draw_key);

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

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_SEGMENT_TILES_H_
