#include "worker/trainer/optimizer_blobs.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/layout/segment_elements.h"
#include "common/wire/buffer.h"
#include "worker/models/node_tensors.h"
#include "worker/sync/fragments.h"

namespace longwave {

absl::Status SaveOptimizer(InnerOptimizer& optimizer, const KernelOps& ops, const Exec& exec,
                           std::vector<NamedBlob>* blobs) {
  for (const StateArray& array : optimizer.State()) {
    const auto copy = std::make_shared<std::vector<std::byte>>(array.bytes);
    LONGWAVE_RETURN_IF_ERROR(ops.copy(exec, copy->data(), array.data, array.bytes));
    blobs->push_back({.name = array.name, .bytes = Buffer(std::span(*copy), copy)});
  }
  return ops.wait(exec);
}

namespace {

// The elements of the array that a rank has, in order.
std::vector<ElementRange> ElementsOf(const StateArray& array, const Layout& layout, NodeRank node) {
  const SegmentRange segments = SegmentsOfRank(layout, node.rank, node.ranks);
  return Intersection(array.elements, FragmentElements(layout, 0, 1, segments));
}

size_t BytesOf(const StateArray& array, const Layout& layout, NodeRank node) {
  return array.elements.empty() ? array.bytes
                                : ElementCount(ElementsOf(array, layout, node)) * sizeof(float);
}

// The ranks whose blobs these are, in order: one of `node`, or all of another node.
std::vector<NodeRank> RanksOf(std::span<const NamedBlob> blobs,
                              const std::vector<StateArray>& state, const Layout& layout,
                              NodeRank node) {
  if (blobs.size() > state.size() && blobs[state.size()].name == blobs[0].name) {
    const auto ranks = static_cast<uint32_t>(blobs.size() / state.size());
    std::vector<NodeRank> all;
    for (uint32_t r = 0; r < std::min(ranks, NodeRank::kRanksMax); ++r)
      all.push_back({.rank = r, .ranks = ranks});
    return all;
  }
  for (size_t i = 0; i < std::min(blobs.size(), state.size()); ++i) {
    if (blobs[i].bytes.size() != BytesOf(state[i], layout, node)) return {NodeRank{}};
  }
  return {node};
}

// Copies from the blob what is here of its elements, both packed in their order.
absl::Status TakeElements(const NamedBlob& blob, const std::vector<ElementRange>& there,
                          const std::vector<ElementRange>& here, const KernelOps& ops,
                          const Exec& exec, std::byte* to) {
  uint64_t in_blob = 0;
  for (const ElementRange& range : there) {
    uint64_t in_state = 0;
    for (const ElementRange& own : here) {
      const uint64_t begin = std::max(range.begin, own.begin);
      const uint64_t end = std::min(range.end, own.end);
      if (begin < end) {
        LONGWAVE_RETURN_IF_ERROR(
            ops.copy(exec, to + (in_state + begin - own.begin) * sizeof(float),
                     blob.bytes.bytes().data() + (in_blob + begin - range.begin) * sizeof(float),
                     (end - begin) * sizeof(float)));
      }
      in_state += own.end - own.begin;
    }
    in_blob += range.end - range.begin;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadOptimizer(std::span<const NamedBlob> blobs, const KernelOps& ops, const Exec& exec,
                           const Layout& layout, NodeRank node, InnerOptimizer* optimizer) {
  const std::vector<StateArray> state = optimizer->State();
  const std::vector<NodeRank> ranks = RanksOf(blobs, state, layout, node);
  std::vector<std::string> got, wanted;
  for (const NamedBlob& blob : blobs) {
    got.push_back(absl::StrCat(blob.name, " of ", blob.bytes.size(), " bytes"));
  }
  for (const NodeRank& rank : ranks) {
    for (const StateArray& array : state)
      wanted.push_back(absl::StrCat(array.name, " of ", BytesOf(array, layout, rank), " bytes"));
  }
  if (got != wanted) {
    return InvalidArgument("checkpoint: got the optimizer's ",
                           got.empty() ? "nothing" : absl::StrJoin(got, ", "), ", wanted ",
                           absl::StrJoin(wanted, ", "),
                           ": a worker goes on with the train.optimizer and the model that it had");
  }
  for (size_t i = 0; i < state.size(); ++i) {
    const std::vector<ElementRange> here = ElementsOf(state[i], layout, node);
    for (size_t r = 0; r < ranks.size(); ++r) {
      const NamedBlob& blob = blobs[r * state.size() + i];
      if (state[i].elements.empty()) {
        LONGWAVE_RETURN_IF_ERROR(
            ops.copy(exec, state[i].data, blob.bytes.bytes().data(), state[i].bytes));
      } else {
        LONGWAVE_RETURN_IF_ERROR(TakeElements(blob, ElementsOf(state[i], layout, ranks[r]), here,
                                              ops, exec, static_cast<std::byte*>(state[i].data)));
      }
    }
  }
  LONGWAVE_RETURN_IF_ERROR(ops.wait(exec));
  return optimizer->CheckState();
}

}  // namespace longwave
