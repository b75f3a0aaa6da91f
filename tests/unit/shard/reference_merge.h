#ifndef LONGWAVE_TESTS_UNIT_SHARD_REFERENCE_MERGE_H_
#define LONGWAVE_TESTS_UNIT_SHARD_REFERENCE_MERGE_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "common/wire/tile_codec.h"
#include "server/shard/merge.h"
#include "tests/support/reference/tile_codec.h"
#include "tests/support/tile_levels.h"
#include "tests/unit/shard/shard_testing.h"

namespace longwave {

// The steps of merge.h one after the other, as the reference of the merge.

inline float ReferenceSaturate(double value) {
  return static_cast<float>(std::clamp(value, -double{kMergedMax}, double{kMergedMax})) + 0.0f;
}

// A contribution's part of one tile: levels times a scale, or values with a scale of 1.
struct ReferenceTile {
  std::vector<uint16_t> indices;
  std::vector<double> levels;
  double scale = 1;
  double bound = 0;  // of |level · scale|
};

inline ReferenceTile ReadReferenceTile(const Contribution& from, uint32_t tile, uint64_t draw) {
  const PayloadLayout& layout = *from.layout;
  const ValueCodec codec = layout.format().codec;
  ReferenceTile read;
  read.indices.resize(layout.sent_count(tile));
  if (HasScale(codec)) {
    std::vector<int32_t> levels(read.indices.size());
    read.scale = ReadTileLevels(layout, tile, from.payload, draw, read.indices, levels);
    read.levels.assign(levels.begin(), levels.end());
    read.bound = read.scale * TopLevel(codec);
  } else {
    std::vector<float> values(read.indices.size());
    ReadTile(layout, tile, from.payload, draw, read.indices, values);
    read.levels.assign(values.begin(), values.end());
    for (const float value : values) read.bound = std::max(read.bound, std::fabs(double{value}));
  }
  return read;
}

// G of one tile of n coefficients.
inline std::vector<float> ReferenceMergeTile(std::span<const Contribution> contributions,
                                             double rho, uint32_t tile, uint32_t n, uint64_t draw) {
  std::vector<ReferenceTile> tiles;
  double bound = 0;
  uint64_t weight_sum = 0;
  for (const Contribution& contribution : contributions) {
    tiles.push_back(ReadReferenceTile(contribution, tile, draw));
    const double v = static_cast<double>(contribution.weight) * contribution.factor;
    bound = std::max(bound, v * tiles.back().bound);
    weight_sum += contribution.weight;
  }
  std::vector<float> merged(n, 0.0f);
  if (bound == 0) return merged;
  int e = 0;
  std::frexp(bound, &e);
  const int s = 61 - e - static_cast<int>(std::bit_width(contributions.size() - 1));
  std::vector<int64_t> sums(n), senders(n);
  for (size_t c = 0; c < tiles.size(); ++c) {
    const Contribution& contribution = contributions[c];
    const bool has_scale = HasScale(contribution.layout->format().codec);
    const double v = static_cast<double>(contribution.weight) * contribution.factor;
    const int64_t multiplier = std::llrint(std::ldexp(v * tiles[c].scale, s));
    for (size_t i = 0; i < tiles[c].indices.size(); ++i) {
      const double level = tiles[c].levels[i];
      sums[tiles[c].indices[i]] += has_scale ? static_cast<int64_t>(level) * multiplier
                                             : std::llrint(std::ldexp(v * level, s));
      senders[tiles[c].indices[i]] += static_cast<int64_t>(contribution.weight);
    }
  }
  for (uint32_t i = 0; i < n; ++i) {
    if (sums[i] == 0) continue;
    const double divisor =
        std::max(static_cast<double>(senders[i]), rho * static_cast<double>(weight_sum));
    merged[i] = ReferenceSaturate(std::ldexp(static_cast<double>(sums[i]), -s) / divisor);
  }
  return merged;
}

// The k of largest magnitude, ties to the smaller index, in increasing order.
inline std::vector<uint16_t> ReferenceTopK(std::span<const float> values, uint32_t k) {
  std::vector<uint16_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint16_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) {
    return std::fabs(values[a]) > std::fabs(values[b]);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

// A whole merge of "down: topk" into E. Returns the payload.
inline std::vector<std::byte> ReferenceMergeTopK(const MergeOptions& options, const Layout& layout,
                                                 uint32_t segment, uint32_t round,
                                                 std::span<const Contribution> contributions,
                                                 std::span<float> residual) {
  const PayloadLayout down = PayloadLayoutOf(options.down, layout, segment);
  std::vector<std::byte> payload(down.bytes());
  BeginPayload(down, payload);
  size_t begin = 0;
  for (uint32_t tile = 0; tile < down.tile_count(); ++tile) {
    const uint32_t n = down.tile_size(tile);
    const std::span<float> e = residual.subspan(begin, n);
    begin += n;
    const uint64_t draw = SelectionDraw(options.run_seed, round,
                                        uint64_t{layout.segments()[segment].tile_begin} + tile);
    const std::vector<float> g = ReferenceMergeTile(contributions, options.rho, tile, n, draw);
    for (uint32_t i = 0; i < n; ++i) e[i] = ReferenceSaturate(double{e[i]} + double{g[i]});
    const std::vector<uint16_t> indices = ReferenceTopK(e, down.sent_count(tile));
    std::vector<float> sent;
    for (const uint16_t i : indices) sent.push_back(e[i]);
    std::vector<uint32_t> codes(sent.size());
    const uint16_t scale = QuantizeTile(options.down.codec, sent, codes);
    WriteTile(down, tile, indices, codes, scale, payload);
    for (size_t i = 0; i < indices.size(); ++i) e[indices[i]] -= sent[i];
  }
  return payload;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_SHARD_REFERENCE_MERGE_H_
