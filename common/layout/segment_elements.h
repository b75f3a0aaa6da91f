#ifndef LONGWAVE_COMMON_LAYOUT_SEGMENT_ELEMENTS_H_
#define LONGWAVE_COMMON_LAYOUT_SEGMENT_ELEMENTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/layout/layout.h"

namespace longwave {

// Elements begin … end − 1 of the flat array.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool operator==(const ElementRange&) const = default;
};

uint64_t ElementCount(std::span<const ElementRange> ranges);

// The elements of a segment's tiles, each once, ascending: the order in which a segment's
// parameters are sent and stored. Neighbouring ranges are joined. A segment that ends inside a row
// of a matrix's blocks has one range a matrix row there.
std::vector<ElementRange> SegmentElements(const Layout& layout, uint32_t segment);

// Appends the ranges of `segment`, and joins neighbours.
void AppendSegmentElements(const Layout& layout, uint32_t segment,
                           std::vector<ElementRange>& ranges);

// Σ Mix64(Mix64(flat index) + bits) modulo 2^64 over the segment's elements, as KernelOps::hash
// computes from a whole flat array. elements: as many as SegmentElements has, in its order.
uint64_t SegmentHash(const Layout& layout, uint32_t segment, std::span<const float> elements);

// The hash by which replicas and snapshots of a segment are compared. The hash covers the state
// that the next merged update is applied to: the parameters and, with sync.update nesterov, their
// velocity. hashes: each array's SegmentHash in that order, at least one. The result is h = the
// first hash; each further hash makes h into Mix64(h) + that hash.
uint64_t StateHash(std::span<const uint64_t> hashes);

// StateHash of the arrays, each as SegmentHash wants it.
uint64_t SegmentStateHash(const Layout& layout, uint32_t segment,
                          std::span<const std::vector<float>> arrays);

// A segment's state before round 0: its parameters in `theta`, [layout.parameter_count()] flat, and
// `array_count` - 1 further arrays of zeros.
std::vector<std::vector<float>> StartState(const Layout& layout, uint32_t segment,
                                           std::span<const float> theta, size_t array_count);

// The SegmentStateHash of each segment's StartState.
std::vector<uint64_t> StartHashes(const Layout& layout, std::span<const float> theta,
                                  size_t array_count, SegmentRange segments);
inline std::vector<uint64_t> StartHashes(const Layout& layout, std::span<const float> theta,
                                         size_t array_count) {
  return StartHashes(layout, theta, array_count, AllSegments(layout));
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LAYOUT_SEGMENT_ELEMENTS_H_
