#ifndef LONGWAVE_KERNELS_CPU_TILES_H_
#define LONGWAVE_KERNELS_CPU_TILES_H_

#include <cstdint>
#include <span>

#include "common/layout/layout.h"
#include "common/wire/tile_codec.h"
#include "kernels/cpu/tile_math.h"
#include "kernels/dct_plan.h"
#include "kernels/ops.h"

namespace longwave::cpu {

// Converts an operation's arguments to those of the inner loops, which are plain numbers.

inline TilePlace PlaceOf(const Tile& tile) {
  return {tile.offset, tile.row_stride, tile.rows, tile.cols, tile.rows_valid, tile.cols_valid};
}

inline TilePlans PlansOf(const Tile& tile, DctDirection direction) {
  return {DctPlan::Of(tile.rows, direction).view(), DctPlan::Of(tile.cols, direction).view(),
          DctNorm(tile.rows, tile.cols), AllRotations(), nullptr};
}

inline TileSignal SignalOf(const Signal& signal) { return {signal.a, signal.b, signal.scale}; }

// The values that all tiles of a call share.
struct TileContext {
  const TileMath& math;
  const PayloadLayout& payload_layout;
  std::span<const Tile> tiles;
  uint32_t tile_begin;  // of the segment in the layout; selection draws by a tile's index in it
  uint64_t run_seed;
  uint32_t round;

  template <typename Args>
  TileContext(const TileMath& tile_math, const Args& args)
      : math(tile_math),
        payload_layout(*args.payload_layout),
        tiles(args.layout->tiles(args.layout->segments()[args.segment])),
        tile_begin(args.layout->segments()[args.segment].tile_begin),
        run_seed(args.run_seed),
        round(args.round) {}

  uint32_t tile_count() const { return static_cast<uint32_t>(tiles.size()); }
  uint64_t Draw(uint32_t t) const { return SelectionDraw(run_seed, round, tile_begin + t); }
  // The tile after `t`; the last tile repeats itself.
  const Tile& Next(uint32_t t) const { return tiles[t + 1 < tiles.size() ? t + 1 : t]; }
};

// m̂ ← fma(factor, v, m̂) for the `count` sent values of a tile.
inline void AddSent(const TileContext& context, uint32_t count, float factor, const TileWork& work,
                    float* momentum) {
  if (context.payload_layout.format().selection == Selection::kAll) {
    return context.math.add_scaled(count, factor, work.values, momentum);
  }
  context.math.add_scaled_at(count, factor, work.values, work.indices, momentum);
}

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_TILES_H_
