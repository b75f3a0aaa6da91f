#include "worker/node/collective_tensors.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/sync/fragments.h"

namespace longwave {
namespace {

std::vector<ElementRange> RangesOf(std::span<const FlatPart> parts) {
  std::vector<ElementRange> ranges;
  for (const FlatPart& part : parts) ranges.push_back({part.begin, part.end});
  return ranges;
}

// As the bytes of a meeting.
std::string_view Bytes(const std::vector<ElementRange>& ranges) {
  return {reinterpret_cast<const char*>(ranges.data()), ranges.size() * sizeof(ElementRange)};
}

// Of each rank, from a meeting.
std::vector<std::vector<ElementRange>> Ranges(const std::vector<std::string>& all) {
  std::vector<std::vector<ElementRange>> ranges;
  for (const std::string& bytes : all) {
    ranges.emplace_back(bytes.size() / sizeof(ElementRange));
    if (!bytes.empty()) std::memcpy(ranges.back().data(), bytes.data(), bytes.size());
  }
  return ranges;
}

std::vector<int64_t> Counts(std::span<const std::vector<ElementRange>> pieces) {
  std::vector<int64_t> counts;
  for (const auto& of_rank : pieces) counts.push_back(static_cast<int64_t>(ElementCount(of_rank)));
  return counts;
}

uint64_t Sum(std::span<const int64_t> counts) {
  uint64_t sum = 0;
  for (const int64_t count : counts) sum += static_cast<uint64_t>(count);
  return sum;
}

}  // namespace

CollectiveTensors::CollectiveTensors(TensorMeeting meeting, std::unique_ptr<Collective> collective,
                                     const Layout* layout, const KernelOps* ops, Exec exec,
                                     uint64_t block, Counter* seconds)
    : meeting_(meeting),
      collective_(std::move(collective)),
      ops_(ops),
      exec_(exec),
      block_(block),
      seconds_(seconds),
      count_(layout->parameter_count()) {
  const uint32_t ranks = node().ranks;
  for (uint32_t r = 0; r < ranks; ++r)
    owned_.push_back(FragmentElements(*layout, 0, 1, SegmentsOfRank(*layout, r, ranks)));
}

absl::Status CollectiveTensors::Copy(Way way, std::span<const FlatPart> parts,
                                     const std::vector<ElementRange>& pieces, float* host) const {
  for (const auto& [begin, end] : pieces) {
    // A piece lies within one part: it is an intersection with the parts' own ranges.
    const auto part = std::ranges::upper_bound(parts, begin, {}, &FlatPart::end);
    float* const element = part->data + (begin - part->begin);
    const auto [to, from] = way == Way::kPack ? std::pair(host, element) : std::pair(element, host);
    LONGWAVE_RETURN_IF_ERROR(ops_->copy(exec_, to, from, (end - begin) * sizeof(float)));
    host += end - begin;
  }
  return absl::OkStatus();
}

absl::Status CollectiveTensors::Exchange(std::span<const FlatPart> parts, const Pieces& to,
                                         const Pieces& from) {
  const std::vector<int64_t> sent = Counts(to), received = Counts(from);
  sent_.resize(Sum(sent));
  received_.resize(Sum(received));
  float* place = sent_.data();
  for (size_t r = 0; r < to.size(); place += sent[r++])
    LONGWAVE_RETURN_IF_ERROR(Copy(Way::kPack, parts, to[r], place));
  LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
  return collective_->AllToAll(sent_, sent, received_, received);
}

absl::Status CollectiveTensors::ReduceToOwners(const float* terms, const float* before,
                                               float* sums) {
  const PhaseTimer timer(seconds_);
  LONGWAVE_RETURN_IF_ERROR(meeting_.Meet({}).status());
  // Nothing is written through it.
  const FlatPart whole{0, count_, const_cast<float*>(terms)};
  for (uint64_t begin = 0; begin < count_; begin += block_) {
    const std::vector<ElementRange> block = {{begin, std::min(begin + block_, count_)}};
    Pieces to;
    for (const auto& elements : owned_) to.push_back(Intersection(block, elements));
    const std::vector<ElementRange>& mine = to[node().rank];
    LONGWAVE_RETURN_IF_ERROR(Exchange({&whole, 1}, to, Pieces(owned_.size(), mine)));
    const uint64_t count = ElementCount(mine);
    size_t rank = 0;
    if (before != nullptr) {
      const FlatPart all_before{0, count_, const_cast<float*>(before)};
      sums_.resize(count);
      LONGWAVE_RETURN_IF_ERROR(Copy(Way::kPack, {&all_before, 1}, mine, sums_.data()));
      LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
    } else {
      sums_.assign(received_.begin(), received_.begin() + static_cast<int64_t>(count));
      rank = 1;
    }
    for (; rank < owned_.size(); ++rank) {
      const float* const its = received_.data() + rank * count;
      for (uint64_t e = 0; e < count; ++e) sums_[e] += its[e];
    }
    const FlatPart all_sums{0, count_, sums};
    LONGWAVE_RETURN_IF_ERROR(Copy(Way::kUnpack, {&all_sums, 1}, mine, sums_.data()));
    LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
  }
  return absl::OkStatus();
}

absl::Status CollectiveTensors::Move(std::span<const FlatPart> given,
                                     std::span<const FlatPart> taken) {
  const PhaseTimer timer(seconds_);
  const std::vector<ElementRange> gives = RangesOf(given), takes = RangesOf(taken);
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> given_bytes,
                            meeting_.Meet(Bytes(gives)));
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> taken_bytes,
                            meeting_.Meet(Bytes(takes)));
  const Pieces all_give = Ranges(given_bytes), all_take = Ranges(taken_bytes);
  for (uint64_t begin = 0; begin < count_; begin += block_) {
    const std::vector<ElementRange> block = {{begin, std::min(begin + block_, count_)}};
    const std::vector<ElementRange> to_give = Intersection(gives, block);
    const std::vector<ElementRange> to_take = Intersection(takes, block);
    Pieces to, from;
    for (uint32_t r = 0; r < node().ranks; ++r) {
      to.push_back(Intersection(to_give, all_take[r]));
      from.push_back(Intersection(to_take, all_give[r]));
    }
    LONGWAVE_RETURN_IF_ERROR(Exchange(given, to, from));
    float* place = received_.data();
    for (const auto& pieces : from) {
      LONGWAVE_RETURN_IF_ERROR(Copy(Way::kUnpack, taken, pieces, place));
      place += ElementCount(pieces);
    }
    LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<double>>> CollectiveTensors::Gather(
    std::span<const double> mine) {
  const PhaseTimer timer(seconds_);
  return meeting_.Gather(mine);
}

}  // namespace longwave
