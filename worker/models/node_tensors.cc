#include "worker/models/node_tensors.h"

#include <algorithm>

namespace longwave {

absl::Status Spread(NodeTensors& node, std::span<const ElementRange> mine, uint64_t count,
                    float* array) {
  std::vector<FlatPart> given, taken;
  uint64_t at = 0;
  for (const auto& [begin, end] : mine) {
    if (at < begin) taken.push_back({at, begin, array + at});
    given.push_back({begin, end, array + begin});
    at = end;
  }
  if (at < count) taken.push_back({at, count, array + at});
  return node.Move(given, taken);
}

std::vector<ElementRange> Intersection(std::span<const ElementRange> ranges,
                                       std::span<const ElementRange> owned) {
  std::vector<ElementRange> parts;
  for (const ElementRange& range : ranges) {
    auto each = std::ranges::upper_bound(owned, range.begin, {}, &ElementRange::end);
    for (; each != owned.end() && each->begin < range.end; ++each) {
      const ElementRange part = {std::max(range.begin, each->begin),
                                 std::min(range.end, each->end)};
      if (part.begin < part.end) parts.push_back(part);
    }
  }
  return parts;
}

}  // namespace longwave
