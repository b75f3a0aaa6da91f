#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/layout/segment_elements.h"
#include "worker/sync/pipeline.h"

// The pipeline's part outside the order of rounds: catching up, snapshots, checkpoints.

namespace longwave {

absl::Status SyncPipeline::CheckCatchesUp() const {
  const bool inner = options_.update == UpdateKind::kInner;
  if (!inner && options_.update != UpdateKind::kLocal) return absl::OkStatus();
  return FailedPrecondition(
      "sync: got update ", inner ? "inner" : "local",
      ", under which a replica is more than a function of the merged updates; wanted "
      "sgd, sign or nesterov to catch up");
}

std::vector<float*> SyncPipeline::SegmentArrays() const {
  std::vector<float*> arrays = {Anchor()};
  if (options_.update == UpdateKind::kNesterov) arrays.push_back(velocity_.get());
  return arrays;
}

absl::Status SyncPipeline::CatchUp(uint32_t index, uint32_t round, double learning_rate,
                                   const Buffer& merged) {
  LONGWAVE_RETURN_IF_ERROR(CheckCatchesUp());
  if (const uint32_t wanted = segments_[index].anchor_round; round != wanted) {
    return FailedPrecondition("segment ", index, " catches up: got the update of round ", round,
                              ", wanted that of round ", wanted);
  }
  const Merged one{.segment = index, .payload = merged};
  return Update({&one, 1}, round, learning_rate);
}

absl::Status SyncPipeline::AdoptAnchor() {
  for (uint32_t s = 0; s < segments_.size(); ++s) {
    if (segments_[s].begun) LONGWAVE_RETURN_IF_ERROR(Drop(s));
  }
  to_begin_.clear();
  if (!InPlace()) {
    LONGWAVE_RETURN_IF_ERROR(Copy(owned_elements_, replica_.theta, Anchor()));
  }
  return ops_->wait(exec_);
}

absl::Status SyncPipeline::AdoptAnchor(std::span<const uint32_t> segments) {
  if (InPlace()) return absl::OkStatus();
  for (const uint32_t segment : segments) {
    if (!owned_.Contains(segment)) continue;
    LONGWAVE_RETURN_IF_ERROR(Copy(SegmentElements(*layout_, segment), replica_.theta, Anchor()));
  }
  return ops_->wait(exec_);
}

absl::StatusOr<std::vector<std::vector<float>>> SyncPipeline::ExportSegment(uint32_t segment) {
  LONGWAVE_CHECK(owned_.Contains(segment));
  const std::vector<ElementRange> ranges = SegmentElements(*layout_, segment);
  std::vector<std::vector<float>> arrays;
  for (const float* from : SegmentArrays()) {
    std::vector<float>& array = arrays.emplace_back(ElementCount(ranges));
    float* to = array.data();
    for (const auto& [begin, end] : ranges) {
      LONGWAVE_RETURN_IF_ERROR(ops_->copy(exec_, to, from + begin, (end - begin) * sizeof(float)));
      to += end - begin;
    }
  }
  LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
  return arrays;
}

absl::Status SyncPipeline::LoadSegment(uint32_t segment, uint32_t round,
                                       std::span<const std::vector<float>> arrays) {
  LONGWAVE_RETURN_IF_ERROR(CheckCatchesUp());
  if (!owned_.Contains(segment)) {
    segments_[segment].anchor_round = round;
    return absl::OkStatus();
  }
  const std::vector<float*> targets = SegmentArrays();
  if (arrays.size() != targets.size()) {
    return InvalidArgument("segment ", segment, ": got ", arrays.size(), " arrays, wanted ",
                           targets.size());
  }
  const std::vector<ElementRange> ranges = SegmentElements(*layout_, segment);
  const uint64_t elements = ElementCount(ranges);
  for (const std::vector<float>& array : arrays) {
    if (array.size() == elements) continue;
    return InvalidArgument("segment ", segment, ": got an array of ", array.size(),
                           " elements, wanted ", elements);
  }
  for (size_t a = 0; a < arrays.size(); ++a) {
    const float* from = arrays[a].data();
    for (const auto& [begin, end] : ranges) {
      LONGWAVE_RETURN_IF_ERROR(
          ops_->copy(exec_, targets[a] + begin, from, (end - begin) * sizeof(float)));
      from += end - begin;
    }
  }
  LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
  segments_[segment].anchor_round = round;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> SyncPipeline::ExportMomentum(std::span<const uint32_t> unsettled,
                                                                std::vector<float> momentum) {
  for (uint32_t s = 0; s < segments_.size(); ++s) {
    if (!segments_[s].begun) continue;
    return FailedPrecondition("momentum: got an export while segment ", s, " of round ", round_,
                              " is encoded, wanted that it is taken before");
  }
  const uint64_t first = CoefficientBegin();
  const uint64_t count = CoefficientEnd() - first;
  if (ops_->on_device) {
    momentum.resize(count);
    LONGWAVE_RETURN_IF_ERROR(
        ops_->copy(exec_, momentum.data(), momentum_.get() + first, count * sizeof(float)));
    LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
  } else {
    momentum.assign(momentum_.get() + first, momentum_.get() + first + count);
  }
  // Segments whose residual matters to the next encoding, or to a return of the last one.
  std::vector<bool> keeps(segments_.size(), options_.beta != 0);
  for (const uint32_t s : unsettled) keeps[s] = true;
  for (uint32_t s = owned_.begin; s < owned_.end; ++s) {
    if (keeps[s] || segments_[s].given_back) continue;
    const Segment& segment = PlaceOf(s);
    std::fill_n(momentum.begin() + static_cast<ptrdiff_t>(segment.coefficient_begin - first),
                segment.coefficient_count, 0.0f);
  }
  return momentum;
}

absl::Status SyncPipeline::LoadMomentum(std::span<const float> momentum,
                                        std::span<const uint32_t> unsettled,
                                        std::span<const uint32_t> accounted, uint32_t round) {
  const uint64_t first = CoefficientBegin();
  if (const uint64_t wanted = CoefficientEnd() - first; momentum.size() != wanted) {
    return InvalidArgument("momentum: got ", momentum.size(), " coefficients, wanted ", wanted);
  }
  const auto bad =
      std::ranges::find_if(momentum, [](float value) { return !std::isfinite(value); });
  if (bad != momentum.end()) {
    return InvalidArgument("momentum: coefficient ", bad - momentum.begin(), " is ", *bad,
                           ", wanted finite numbers");
  }
  LONGWAVE_RETURN_IF_ERROR(
      ops_->copy(exec_, momentum_.get() + first, momentum.data(), momentum.size() * sizeof(float)));
  // A checkpoint does not say which were returned: the residuals of the others are zeros in it.
  for (SegmentSync& segment : segments_) segment.given_back = true;
  for (const uint32_t segment : unsettled) {
    LONGWAVE_CHECK(segment < segments_.size());
    segments_[segment].given_back = false;
  }
  LONGWAVE_CHECK(accounted.empty() || accounted.size() == segments_.size());
  for (size_t s = 0; s < accounted.size(); ++s) segments_[s].accounted = accounted[s];
  for (const uint32_t segment : unsettled) {
    SegmentSync& one = segments_[segment];
    one.accounted_before = std::exchange(one.accounted, round + 1);
  }
  return ops_->wait(exec_);
}

std::vector<uint32_t> SyncPipeline::Accounted() const {
  std::vector<uint32_t> accounted;
  for (const SegmentSync& segment : segments_) accounted.push_back(segment.accounted);
  return accounted;
}

absl::Status SyncPipeline::RestoreFrom(uint32_t segment, uint32_t round, const Buffer& payload) {
  if (!owned_.Contains(segment)) {
    segments_[segment].GiveBackAccounted(round);
    segments_[segment].given_back = true;
    return absl::OkStatus();
  }
  // With topk a worker may restart with another k and codec than the payload's.
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(payload.bytes()));
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadLayout form,
                            PayloadLayout::Create(format, layout_->TileSizes(segment)));
  LONGWAVE_RETURN_IF_ERROR(ValidatePayload(form, payload.bytes()));
  segments_[segment].GiveBackAccounted(round);
  return GiveBack(segment, round, form, payload.bytes());
}

absl::Status SyncPipeline::DropResidual(uint32_t index) {
  segments_[index].accounted = 0;
  if (!owned_.Contains(index)) return absl::OkStatus();
  const Segment& segment = PlaceOf(index);
  const std::vector<float> nothing(segment.coefficient_count);
  LONGWAVE_RETURN_IF_ERROR(ops_->copy(exec_, momentum_.get() + segment.coefficient_begin,
                                      nothing.data(), nothing.size() * sizeof(float)));
  return ops_->wait(exec_);
}

}  // namespace longwave
