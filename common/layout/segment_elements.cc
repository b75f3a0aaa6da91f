#include "common/layout/segment_elements.h"

#include <bit>

#include "common/base/check.h"
#include "common/base/rng.h"

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

void Append(const Strip& strip, std::vector<ElementRange>& ranges) {
  for (uint64_t row = 0; row < strip.rows; ++row) {
    const uint64_t begin = strip.offset + row * strip.row_stride;
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end += strip.width;
    } else {
      ranges.push_back({begin, begin + strip.width});
    }
  }
}

}  // namespace

uint64_t ElementCount(std::span<const ElementRange> ranges) {
  uint64_t count = 0;
  for (const ElementRange& range : ranges) count += range.end - range.begin;
  return count;
}

void AppendSegmentElements(const Layout& layout, uint32_t segment,
                           std::vector<ElementRange>& ranges) {
  Strip strip;
  for (const Tile& tile : layout.tiles(layout.segments()[segment])) {
    if (strip.Takes(tile)) {
      strip.width += tile.cols_valid;
      continue;
    }
    Append(strip, ranges);
    strip = {tile.offset, tile.cols_valid, tile.rows_valid, tile.row_stride};
  }
  Append(strip, ranges);
}

std::vector<ElementRange> SegmentElements(const Layout& layout, uint32_t segment) {
  std::vector<ElementRange> ranges;
  AppendSegmentElements(layout, segment, ranges);
  return ranges;
}

uint64_t SegmentHash(const Layout& layout, uint32_t segment, std::span<const float> elements) {
  const std::vector<ElementRange> ranges = SegmentElements(layout, segment);
  LONGWAVE_CHECK(elements.size() == ElementCount(ranges));
  uint64_t hash = 0;
  const float* element = elements.data();
  for (const ElementRange& range : ranges) {
    for (uint64_t index = range.begin; index < range.end; ++index) {
      hash += Mix64(Mix64(index) + std::bit_cast<uint32_t>(*element++));
    }
  }
  return hash;
}

uint64_t StateHash(std::span<const uint64_t> hashes) {
  LONGWAVE_CHECK(!hashes.empty());
  uint64_t hash = hashes.front();
  for (const uint64_t next : hashes.subspan(1)) hash = Mix64(hash) + next;
  return hash;
}

uint64_t SegmentStateHash(const Layout& layout, uint32_t segment,
                          std::span<const std::vector<float>> arrays) {
  std::vector<uint64_t> hashes;
  for (const std::vector<float>& array : arrays) {
    hashes.push_back(SegmentHash(layout, segment, array));
  }
  return StateHash(hashes);
}

std::vector<std::vector<float>> StartState(const Layout& layout, uint32_t segment,
                                           std::span<const float> theta, size_t array_count) {
  LONGWAVE_CHECK(theta.size() == layout.parameter_count());
  std::vector<std::vector<float>> arrays(array_count);
  for (const auto& [begin, end] : SegmentElements(layout, segment)) {
    arrays[0].insert(arrays[0].end(), theta.begin() + static_cast<ptrdiff_t>(begin),
                     theta.begin() + static_cast<ptrdiff_t>(end));
  }
  for (size_t i = 1; i < arrays.size(); ++i) arrays[i].resize(arrays[0].size());
  return arrays;
}

std::vector<uint64_t> StartHashes(const Layout& layout, std::span<const float> theta,
                                  size_t array_count, SegmentRange segments) {
  std::vector<uint64_t> hashes;
  for (uint32_t s = segments.begin; s < segments.end; ++s)
    hashes.push_back(SegmentStateHash(layout, s, StartState(layout, s, theta, array_count)));
  return hashes;
}

}  // namespace longwave
