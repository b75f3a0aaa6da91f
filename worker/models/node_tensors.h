#ifndef LONGWAVE_WORKER_MODELS_NODE_TENSORS_H_
#define LONGWAVE_WORKER_MODELS_NODE_TENSORS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/segment_elements.h"
#include "common/wire/frame.h"

namespace longwave {

// Elements begin … end − 1 of a flat array, of which the first is at `data`.
struct FlatPart {
  uint64_t begin = 0;
  uint64_t end = 0;
  float* data = nullptr;
};

// The traffic of tensors between the ranks of a node, each of which owns some elements of the flat
// array (Layout, SegmentsOfRank). Arrays are in the memory of the rank's backend. All ranks make
// the same calls in the same order. Errors: Unavailable, or the error with which another rank has
// ended; later calls fail too.
class NodeTensors {
 public:
  virtual ~NodeTensors() = default;

  virtual NodeRank node() const = 0;
  // The elements that this rank owns, ascending.
  virtual std::span<const ElementRange> owned() const = 0;

  // Adds the ranks' terms in order of the ranks:
  //   sums[i] = before[i] + terms of rank 0 [i] + terms of rank 1 [i] + …
  // for the elements i that this rank owns. Each addition is one of fp32 on the calling thread.
  //   terms   this rank's, [parameter_count]
  //   before  null: none; the sum begins with the terms of rank 0
  //   sums    may be `terms` or `before`
  virtual absl::Status ReduceToOwners(const float* terms, const float* before, float* sums) = 0;

  // Each rank gives the elements of some parts and takes those of others, which one rank gives.
  // Parts are ascending. An element that nobody gives is undefined.
  virtual absl::Status Move(std::span<const FlatPart> given, std::span<const FlatPart> taken) = 0;

  // The values of each rank, by rank.
  virtual absl::StatusOr<std::vector<std::vector<double>>> Gather(std::span<const double> mine) = 0;
};

// Moves the elements `mine` of the flat array, [count], of each rank to all others.
absl::Status Spread(NodeTensors& node, std::span<const ElementRange> mine, uint64_t count,
                    float* array);

// The elements of `ranges` that are in `owned`, in the order of `ranges`; `owned` is ascending.
std::vector<ElementRange> Intersection(std::span<const ElementRange> ranges,
                                       std::span<const ElementRange> owned);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_NODE_TENSORS_H_
