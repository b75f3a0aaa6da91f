#ifndef LONGWAVE_WORKER_NODE_COLLECTIVE_TENSORS_H_
#define LONGWAVE_WORKER_NODE_COLLECTIVE_TENSORS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/metrics/metrics.h"
#include "kernels/ops.h"
#include "worker/models/node_tensors.h"
#include "worker/node/collective.h"
#include "worker/node/tensor_meeting.h"

namespace longwave {

// Tensors by all-to-all exchanges of a collective communication library. The flat array passes in
// blocks through host memory: each rank packs what each other rank is to have of the block, and
// unpacks what comes. Before a call's first block all ranks meet, so that a rank that is elsewhere,
// or ends, is noticed.
class CollectiveTensors final : public NodeTensors {
 public:
  // block: elements of the flat array that pass at once. Layout and kernels outlive the object.
  // seconds: of all calls; null: not counted.
  CollectiveTensors(TensorMeeting meeting, std::unique_ptr<Collective> collective,
                    const Layout* layout, const KernelOps* ops, Exec exec, uint64_t block,
                    Counter* seconds);

  NodeRank node() const override { return meeting_.node(); }
  std::span<const ElementRange> owned() const override { return owned_[node().rank]; }
  absl::Status ReduceToOwners(const float* terms, const float* before, float* sums) override;
  absl::Status Move(std::span<const FlatPart> given, std::span<const FlatPart> taken) override;
  absl::StatusOr<std::vector<std::vector<double>>> Gather(std::span<const double> mine) override;

 private:
  // Elements of a block that pass to, or from, each rank.
  using Pieces = std::vector<std::vector<ElementRange>>;
  // Copies between the parts and host memory, in which the pieces lie one after another.
  enum class Way { kPack, kUnpack };
  absl::Status Copy(Way way, std::span<const FlatPart> parts,
                    const std::vector<ElementRange>& pieces, float* host) const;
  // Leaves in received_ the pieces `from` of each rank, by rank.
  absl::Status Exchange(std::span<const FlatPart> parts, const Pieces& to, const Pieces& from);

  TensorMeeting meeting_;
  const std::unique_ptr<Collective> collective_;
  const KernelOps* const ops_;
  const Exec exec_;
  const uint64_t block_;
  Counter* const seconds_;
  const uint64_t count_;                          // of the flat array
  std::vector<std::vector<ElementRange>> owned_;  // by rank
  std::vector<float> sent_, received_, sums_;     // host memory
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_NODE_COLLECTIVE_TENSORS_H_
