#include <algorithm>
#include <span>

#include "common/base/status_macros.h"
#include "common/wire/tile_codec.h"
#include "kernels/check_args.h"
#include "kernels/cpu/dense_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tiles.h"
#include "kernels/cpu/values.h"

namespace longwave::cpu {
namespace {

static_assert(static_cast<int>(UpdateKind::kLocal) == static_cast<int>(UpdateRule::kLocal) &&
              static_cast<int>(UpdateKind::kInner) == static_cast<int>(UpdateRule::kInner) &&
              static_cast<int>(UpdateKind::kNesterov) == static_cast<int>(UpdateRule::kNesterov) &&
              static_cast<int>(UpdateKind::kSign) == static_cast<int>(UpdateRule::kSign));

// Reads work.values and, unless every coefficient was sent, work.indices. Returns their number.
uint32_t Read(const TileContext& context, uint32_t t, std::span<const std::byte> payload,
              TileWork& work) {
  const uint32_t count = context.payload_layout.sent_count(t);
  if (context.payload_layout.format().selection != Selection::kAll) {
    ReadTileIndices(context.payload_layout, t, payload, context.Draw(t), {work.indices, count});
  }
  ReadValues(context.math, context.payload_layout, t, payload, work);
  return count;
}

void DecodeUpdateTile(const TileContext& context, const DecodeUpdateArgs& args,
                      const UpdateStep& step, uint32_t t) {
  TileWork work;
  const Tile& tile = context.tiles[t];
  const uint32_t count = Read(context, t, args.payload, work);
  const uint16_t* indices = work.indices;
  if (args.update == UpdateKind::kLocal) {
    float* momentum = args.momentum + tile.coefficient_offset;
    AddSent(context, count, 1, work, momentum);  // 1 · v is v: only the sum is rounded
    std::copy_n(momentum, tile.size(), work.x);
    indices = nullptr;
  } else if (context.payload_layout.format().selection == Selection::kAll) {
    std::copy_n(work.values, count, work.x);
    indices = nullptr;
  }
  TilePlans plans;
  const bool transformed = args.transform == Transform::kDct;
  if (transformed) {
    plans = PlansOf(tile, DctDirection::kInverse);
    if (indices != nullptr && DctInverseBySums(tile.rows, tile.cols, count)) {
      plans.basis = DctBasis();
    }
  }
  context.math.decode(PlaceOf(tile), PlaceOf(context.Next(t)), transformed ? &plans : nullptr, step,
                      count, indices, work.values, work);
}

}  // namespace

absl::Status DecodeUpdate(const TileMath& math, const Exec& exec, const DecodeUpdateArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  const TileContext context(math, args);
  const UpdateStep step = {static_cast<UpdateRule>(args.update),
                           args.eta,
                           args.mu,
                           args.keep,
                           args.beta,
                           args.theta,
                           args.velocity,
                           args.gradient,
                           SignalOf(args.signal)};
  ParallelFor(context.tile_count(), exec.threads,
              [&](uint32_t t) { DecodeUpdateTile(context, args, step, t); });
  return absl::OkStatus();
}

absl::Status Restore(const TileMath& math, const Exec& exec, const RestoreArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  const TileContext context(math, args);
  ParallelFor(context.tile_count(), exec.threads, [&](uint32_t t) {
    TileWork work;
    const uint32_t count = Read(context, t, args.payload, work);
    AddSent(context, count, args.alpha, work, args.momentum + context.tiles[t].coefficient_offset);
  });
  return absl::OkStatus();
}

absl::Status Hash(const TileMath& math, const Exec& exec, const HashArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  ParallelFor(static_cast<uint32_t>(args.hashes.size()), exec.threads, [&](uint32_t s) {
    uint64_t sum = 0;
    for (const Tile& tile : args.layout->tiles(args.layout->segments()[args.segment_begin + s])) {
      sum += math.hash(PlaceOf(tile), args.theta);
    }
    args.hashes[s] = sum;
  });
  return absl::OkStatus();
}

}  // namespace longwave::cpu
