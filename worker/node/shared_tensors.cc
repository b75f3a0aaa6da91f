#include "worker/node/shared_tensors.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/sync/fragments.h"

namespace longwave {
namespace {

std::vector<ElementRange> OwnedBy(const Layout& layout, NodeRank node) {
  return FragmentElements(layout, 0, 1, SegmentsOfRank(layout, node.rank, node.ranks));
}

}  // namespace

SharedTensors::SharedTensors(NodeLink* link, std::span<std::byte> area, const Layout* layout,
                             const KernelOps* ops, Exec exec, absl::Duration patience,
                             uint64_t block, Counter* seconds)
    : meeting_(link, patience),
      area_(reinterpret_cast<float*>(area.data())),
      ops_(ops),
      exec_(exec),
      block_(block),
      seconds_(seconds),
      rank_(link->node()),
      count_(layout->parameter_count()),
      owned_(OwnedBy(*layout, rank_)) {
  LONGWAVE_CHECK(area.size() >= AreaBytes(rank_.ranks, block));
}

absl::Status SharedTensors::Copy(float* to, const float* from, uint64_t count) const {
  return ops_->copy(exec_, to, from, count * sizeof(float));
}

absl::Status SharedTensors::ReduceToOwners(const float* terms, const float* before, float* sums) {
  const PhaseTimer timer(seconds_);
  size_t next = 0;
  for (uint64_t begin = 0; begin < count_; begin += block_) {
    const uint64_t end = std::min(begin + block_, count_);
    LONGWAVE_RETURN_IF_ERROR(Copy(PlaceOf(rank_.rank), terms + begin, end - begin));
    LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
    LONGWAVE_RETURN_IF_ERROR(meeting_.Meet({}).status());
    while (next < owned_.size() && owned_[next].end <= begin) ++next;
    for (size_t i = next; i < owned_.size() && owned_[i].begin < end; ++i) {
      const uint64_t from = std::max(begin, owned_[i].begin), to = std::min(end, owned_[i].end);
      sums_.resize(to - from);
      uint32_t rank = 0;
      if (before != nullptr) {
        LONGWAVE_RETURN_IF_ERROR(Copy(sums_.data(), before + from, to - from));
        LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
      } else {
        std::memcpy(sums_.data(), PlaceOf(rank++) + (from - begin), (to - from) * sizeof(float));
      }
      for (; rank < rank_.ranks; ++rank) {
        const float* const its = PlaceOf(rank) + (from - begin);
        for (uint64_t e = 0; e < to - from; ++e) sums_[e] += its[e];
      }
      LONGWAVE_RETURN_IF_ERROR(Copy(sums + from, sums_.data(), to - from));
      LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
    }
    half_ ^= 1;
  }
  return absl::OkStatus();
}

absl::Status SharedTensors::ForParts(std::span<const FlatPart> parts, size_t* next, uint64_t begin,
                                     uint64_t end, float* half, CopyPart copy) {
  while (*next < parts.size() && parts[*next].end <= begin) ++*next;
  for (size_t i = *next; i < parts.size() && parts[i].begin < end; ++i) {
    const uint64_t from = std::max(begin, parts[i].begin), to = std::min(end, parts[i].end);
    if (from == to) continue;
    LONGWAVE_RETURN_IF_ERROR(
        copy(half + (from - begin), parts[i].data + (from - parts[i].begin), to - from));
  }
  return absl::OkStatus();
}

absl::Status SharedTensors::Move(std::span<const FlatPart> given, std::span<const FlatPart> taken) {
  const PhaseTimer timer(seconds_);
  const uint64_t block = rank_.ranks * block_;
  size_t next_given = 0, next_taken = 0;
  for (uint64_t begin = 0; begin < count_; begin += block) {
    const uint64_t end = std::min(begin + block, count_);
    LONGWAVE_RETURN_IF_ERROR(
        ForParts(given, &next_given, begin, end, Half(),
                 [&](float* half, float* part, uint64_t n) { return Copy(half, part, n); }));
    LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
    LONGWAVE_RETURN_IF_ERROR(meeting_.Meet({}).status());
    LONGWAVE_RETURN_IF_ERROR(
        ForParts(taken, &next_taken, begin, end, Half(),
                 [&](float* half, float* part, uint64_t n) { return Copy(part, half, n); }));
    LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
    half_ ^= 1;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<double>>> SharedTensors::Gather(
    std::span<const double> mine) {
  const PhaseTimer timer(seconds_);
  return meeting_.Gather(mine);
}

}  // namespace longwave
