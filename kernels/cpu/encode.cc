#include <algorithm>
#include <vector>

#include "common/base/status_macros.h"
#include "common/wire/tile_codec.h"
#include "kernels/check_args.h"
#include "kernels/cpu/dense_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tiles.h"
#include "kernels/cpu/values.h"

namespace longwave::cpu {
namespace {

struct TileReport {
  TileSums sums;
  double sent;
};

// Selects the tile's indices and values from its momentum, before the residual is taken.
void Select(const TileContext& context, uint32_t t, const float* momentum, TileWork& work) {
  const uint32_t size = context.tiles[t].size();
  const uint32_t count = context.payload_layout.sent_count(t);
  const Selection selection = context.payload_layout.format().selection;
  switch (selection) {
    case Selection::kTopK:
      return context.math.select_top_k(size, count, momentum, work);
    case Selection::kAll:
      std::copy_n(momentum, size, work.values);
      return;
    case Selection::kRandom:
    case Selection::kStride:
      SelectIndices(selection, {momentum, size}, context.Draw(t), {work.indices, count});
      for (uint32_t i = 0; i < count; ++i) work.values[i] = momentum[work.indices[i]];
      return;
  }
}

TileReport EncodeTile(const TileContext& context, const EncodeArgs& args, uint32_t t) {
  TileWork work;
  const TileMath& math = context.math;
  const Tile& tile = context.tiles[t];
  const Tile& next = context.Next(t);
  float* momentum = args.momentum + tile.coefficient_offset;

  if (args.transform == Transform::kDct && &next != &tile) {
    work.fetcher.at = reinterpret_cast<const char*>(args.momentum + next.coefficient_offset);
    work.fetcher.end = work.fetcher.at + next.size() * sizeof(float);
  }
  TilePlans plans;
  if (args.transform == Transform::kDct) plans = PlansOf(tile, DctDirection::kForward);
  TileReport report;
  report.sums = math.accumulate(
      {PlaceOf(tile), args.transform == Transform::kDct ? &plans : nullptr, SignalOf(args.signal),
       args.beta, momentum, PlaceOf(next), args.momentum + next.coefficient_offset},
      work);
  if (!report.sums.finite) return report;

  // The starting point of the search does not affect the selection.
  static thread_local uint32_t threshold = 0;
  work.threshold = threshold;
  Select(context, t, momentum, work);
  threshold = work.threshold;
  FetchSome(24, work.fetcher);  // most of it where little else waits for memory
  const PayloadFormat& format = context.payload_layout.format();
  const uint32_t count = context.payload_layout.sent_count(t);
  const uint16_t scale = QuantizeValues(math, format.codec, count, work);
  FetchSome(24, work.fetcher);
  report.sent = math.square_sum(count, work.values);
  WriteTileHead(context.payload_layout, t, {work.indices, count}, scale, args.payload);
  FetchSome(24, work.fetcher);
  math.pack(
      ValueBits(format.codec), count, work.codes,
      reinterpret_cast<uint8_t*>(args.payload.data()) + context.payload_layout.offsets(t).values);
  FetchSome(TileWork::kSize, work.fetcher);  // the rest
  AddSent(context, count, -args.alpha, work, momentum);
  return report;
}

}  // namespace

absl::Status Encode(const TileMath& math, const Exec& exec, const EncodeArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  const TileContext context(math, args);
  BeginPayload(*args.payload_layout, args.payload);
  static thread_local std::vector<TileReport> kept;  // no allocation in steady state
  std::vector<TileReport>& reports = kept;           // the caller's, used by every thread
  reports.resize(context.tile_count());
  ParallelFor(context.tile_count(), exec.threads,
              [&](uint32_t t) { reports[t] = EncodeTile(context, args, t); });
  // Summed in the tiles' order, so that the number of threads does not affect the bits.
  EncodeReport total;
  for (uint32_t t = 0; t < context.tile_count(); ++t) {
    if (!reports[t].sums.finite) {
      total.nonfinite_tile = std::min(total.nonfinite_tile, t);
      continue;
    }
    total.signal_square_sum += reports[t].sums.signal;
    total.momentum_square_sum += reports[t].sums.momentum;
    total.sent_square_sum += reports[t].sent;
  }
  *args.report = total;
  return absl::OkStatus();
}

}  // namespace longwave::cpu
