#ifndef LONGWAVE_WORKER_NODE_SHARED_TENSORS_H_
#define LONGWAVE_WORKER_NODE_SHARED_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "common/metrics/metrics.h"
#include "kernels/ops.h"
#include "worker/models/node_tensors.h"
#include "worker/node/tensor_meeting.h"

namespace longwave {

// Tensors by way of host memory that all ranks of a node see: of their processes, or of one process
// whose threads they are. The flat array passes through it in blocks. A block is written by the
// ranks, then all ranks meet on the link, and then the block is read. There are two halves, which
// take turns, so that a rank that comes to the next meeting has read the block before, and one
// meeting a block is enough.
//
// Cost of an array of P elements: ReduceToOwners copies P elements in and P out at each rank, Move
// what the rank gives and takes.
class SharedTensors final : public NodeTensors {
 public:
  // block: elements of a rank's place in one half. In the area each rank has two places.
  static constexpr uint64_t kBlock = uint64_t{1} << 20;
  static size_t AreaBytes(uint32_t ranks, uint64_t block = kBlock) {
    return 2 * ranks * block * sizeof(float);
  }

  // area: of AreaBytes(ranks, block), the same memory at all ranks. patience: see NodeLink. All
  // arguments outlive the object, and the link carries no other meetings during a call. seconds: of
  // all calls; null: not counted.
  SharedTensors(NodeLink* link, std::span<std::byte> area, const Layout* layout,
                const KernelOps* ops, Exec exec, absl::Duration patience, uint64_t block = kBlock,
                Counter* seconds = nullptr);

  NodeRank node() const override { return rank_; }
  std::span<const ElementRange> owned() const override { return owned_; }
  absl::Status ReduceToOwners(const float* terms, const float* before, float* sums) override;
  absl::Status Move(std::span<const FlatPart> given, std::span<const FlatPart> taken) override;
  absl::StatusOr<std::vector<std::vector<double>>> Gather(std::span<const double> mine) override;

 private:
  // The half that is written next; a rank's place in it.
  float* Half() const { return area_ + half_ * rank_.ranks * block_; }
  float* PlaceOf(uint32_t rank) const { return Half() + rank * block_; }
  absl::Status Copy(float* to, const float* from, uint64_t count) const;
  // Copies the elements begin … end − 1 of the parts from or to the half, in which element `begin`
  // is the first. `next` is the first part that may have some.
  using CopyPart = absl::FunctionRef<absl::Status(float* in_half, float* in_part, uint64_t count)>;
  static absl::Status ForParts(std::span<const FlatPart> parts, size_t* next, uint64_t begin,
                               uint64_t end, float* half, CopyPart copy);

  TensorMeeting meeting_;
  float* const area_;
  const KernelOps* const ops_;
  const Exec exec_;
  const uint64_t block_;
  Counter* const seconds_;
  const NodeRank rank_;
  const uint64_t count_;  // of the flat array
  const std::vector<ElementRange> owned_;
  std::vector<float> sums_;
  uint32_t half_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_NODE_SHARED_TENSORS_H_
