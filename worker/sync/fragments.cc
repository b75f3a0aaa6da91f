#include "worker/sync/fragments.h"

#include <algorithm>

#include "common/base/check.h"

namespace longwave {
namespace {

// Tiles side by side in the rows of one matrix, or runs end to end.
struct Strip {
  uint64_t offset = 0;
  uint64_t width = 0;
  uint64_t rows = 0;  // 0: none yet
  uint64_t row_stride = 0;

  bool Takes(const Tile& tile) const {
    if (tile.offset != offset + width || tile.rows_valid != rows) return false;
    return rows == 1 || (tile.row_stride == row_stride && width + tile.cols_valid <= row_stride);
  }
};

void Append(const Strip& strip, std::vector<ElementRange>* ranges) {
  for (uint64_t row = 0; row < strip.rows; ++row) {
    const uint64_t begin = strip.offset + row * strip.row_stride;
    if (!ranges->empty() && ranges->back().end == begin) {
      ranges->back().end += strip.width;
    } else {
      ranges->push_back({begin, begin + strip.width});
    }
  }
}

}  // namespace

uint32_t FragmentCount(uint32_t wanted, const Layout& layout) {
  return std::clamp(wanted, 1u, static_cast<uint32_t>(layout.segments().size()));
}

std::vector<ElementRange> FragmentElements(const Layout& layout, uint32_t fragment,
                                           uint32_t fragment_count) {
  if (fragment_count == 1) return {{0, layout.parameter_count()}};
  std::vector<ElementRange> ranges;
  const auto segments = layout.segments();
  for (size_t s = fragment; s < segments.size(); s += fragment_count) {
    Strip strip;
    for (const Tile& tile : layout.tiles(segments[s])) {
      if (strip.Takes(tile)) {
        strip.width += tile.cols_valid;
        continue;
      }
      Append(strip, &ranges);
      strip = {tile.offset, tile.cols_valid, tile.rows_valid, tile.row_stride};
    }
    Append(strip, &ranges);
  }
  return ranges;
}

SyncPlan::SyncPlan(uint32_t inner_steps, uint32_t fragment_count, uint32_t overlap, uint64_t steps)
    : inner_steps_(inner_steps), fragment_count_(fragment_count), overlap_(overlap), steps_(steps) {
  LONGWAVE_CHECK(inner_steps >= 1 && fragment_count >= 1 && fragment_count <= inner_steps);
  LONGWAVE_CHECK(overlap < (inner_steps + fragment_count - 1) / fragment_count);
}

uint64_t SyncPlan::SignalStep(uint32_t round, uint32_t fragment) const {
  if (round + 1 == round_count()) return steps_;  // no step is left out of the model
  const uint64_t into = ((fragment + 1) * inner_steps_ + fragment_count_ - 1) / fragment_count_;
  return std::min(round * inner_steps_ + into, steps_);
}

SyncPoint SyncPlan::At(uint32_t round, uint32_t fragment) const {
  const uint64_t signal_step = SignalStep(round, fragment);
  return {.round = round,
          .fragment = fragment,
          .steps = signal_step - (round == 0 ? 0 : SignalStep(round - 1, fragment)),
          .signal_step = signal_step,
          .apply_step = std::min(signal_step + overlap_, steps_)};
}

}  // namespace longwave
