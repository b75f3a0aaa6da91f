#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/layout/segment_elements.h"
#include "worker/sync/pipeline.h"
#include "worker/sync/pipeline_state.h"

// The pipeline's part outside the order of rounds: catching up, snapshots, checkpoints.

namespace longwave {

absl::Status SyncPipeline::State::CheckCatchesUp() const {
  const bool inner = options.update == UpdateKind::kInner;
  if (!inner && options.update != UpdateKind::kLocal) return absl::OkStatus();
  return FailedPrecondition(
      "sync: got update ", inner ? "inner" : "local",
      ", under which a replica is more than a function of the merged updates; wanted "
      "sgd, sign or nesterov to catch up");
}

std::vector<float*> SyncPipeline::State::SegmentArrays() const {
  std::vector<float*> arrays = {anchor()};
  if (options.update == UpdateKind::kNesterov) arrays.push_back(velocity.get());
  return arrays;
}

uint32_t SyncPipeline::anchor_round(uint32_t segment) const {
  return state_->segments[segment].anchor_round;
}

absl::Status SyncPipeline::CatchUp(uint32_t index, uint32_t round, double learning_rate,
                                   const Buffer& merged) {
  State& state = *state_;
  LONGWAVE_RETURN_IF_ERROR(state.CheckCatchesUp());
  if (const uint32_t wanted = state.segments[index].anchor_round; round != wanted) {
    return FailedPrecondition("segment ", index, " catches up: got the update of round ", round,
                              ", wanted that of round ", wanted);
  }
  return state.Update(index, round, learning_rate, merged);
}

absl::Status SyncPipeline::AdoptAnchor() {
  State& state = *state_;
  for (uint32_t s = 0; s < state.segments.size(); ++s) {
    if (state.segments[s].begun) LONGWAVE_RETURN_IF_ERROR(state.Drop(s));
  }
  if (!state.InPlace()) {
    LONGWAVE_RETURN_IF_ERROR(state.Copy(state.owned_elements, state.replica.theta, state.anchor()));
  }
  return state.ops->wait(state.exec);
}

absl::Status SyncPipeline::AdoptAnchor(std::span<const uint32_t> segments) {
  State& state = *state_;
  if (state.InPlace()) return absl::OkStatus();
  for (const uint32_t segment : segments) {
    if (!state.owned.Contains(segment)) continue;
    LONGWAVE_RETURN_IF_ERROR(
        state.Copy(SegmentElements(*state.layout, segment), state.replica.theta, state.anchor()));
  }
  return state.ops->wait(state.exec);
}

uint32_t SyncPipeline::segment_arrays() const {
  return static_cast<uint32_t>(state_->SegmentArrays().size());
}

uint64_t SyncPipeline::segment_elements(uint32_t segment) const {
  return ElementCount(SegmentElements(*state_->layout, segment));
}

absl::StatusOr<std::vector<std::vector<float>>> SyncPipeline::ExportSegment(uint32_t segment) {
  State& state = *state_;
  LONGWAVE_CHECK(state.owned.Contains(segment));
  const std::vector<ElementRange> ranges = SegmentElements(*state.layout, segment);
  std::vector<std::vector<float>> arrays;
  for (const float* from : state.SegmentArrays()) {
    std::vector<float>& array = arrays.emplace_back(ElementCount(ranges));
    float* to = array.data();
    for (const auto& [begin, end] : ranges) {
      LONGWAVE_RETURN_IF_ERROR(
          state.ops->copy(state.exec, to, from + begin, (end - begin) * sizeof(float)));
      to += end - begin;
    }
  }
  LONGWAVE_RETURN_IF_ERROR(state.ops->wait(state.exec));
  return arrays;
}

absl::Status SyncPipeline::LoadSegment(uint32_t segment, uint32_t round,
                                       std::span<const std::vector<float>> arrays) {
  State& state = *state_;
  LONGWAVE_RETURN_IF_ERROR(state.CheckCatchesUp());
  if (!state.owned.Contains(segment)) {
    state.segments[segment].anchor_round = round;
    return absl::OkStatus();
  }
  const std::vector<float*> targets = state.SegmentArrays();
  if (arrays.size() != targets.size()) {
    return InvalidArgument("segment ", segment, ": got ", arrays.size(), " arrays, wanted ",
                           targets.size());
  }
  const std::vector<ElementRange> ranges = SegmentElements(*state.layout, segment);
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
          state.ops->copy(state.exec, targets[a] + begin, from, (end - begin) * sizeof(float)));
      from += end - begin;
    }
  }
  LONGWAVE_RETURN_IF_ERROR(state.ops->wait(state.exec));
  state.segments[segment].anchor_round = round;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> SyncPipeline::ExportMomentum(
    std::span<const uint32_t> unsettled) {
  State& state = *state_;
  for (uint32_t s = 0; s < state.segments.size(); ++s) {
    if (!state.segments[s].begun) continue;
    return FailedPrecondition("momentum: got an export while segment ", s, " of round ",
                              state.round, " is encoded, wanted that it is taken before");
  }
  const uint64_t first = state.CoefficientBegin();
  std::vector<float> momentum(state.CoefficientEnd() - first);
  LONGWAVE_RETURN_IF_ERROR(state.ops->copy(
      state.exec, momentum.data(), state.momentum.get() + first, momentum.size() * sizeof(float)));
  LONGWAVE_RETURN_IF_ERROR(state.ops->wait(state.exec));
  // Segments whose residual matters to the next encoding, or to a return of the last one.
  std::vector<bool> keeps(state.segments.size(), state.options.beta != 0);
  for (const uint32_t s : unsettled) keeps[s] = true;
  for (uint32_t s = state.owned.begin; s < state.owned.end; ++s) {
    if (keeps[s] || state.segments[s].given_back) continue;
    const Segment& segment = state.PlaceOf(s);
    std::fill_n(momentum.begin() + static_cast<ptrdiff_t>(segment.coefficient_begin - first),
                segment.coefficient_count, 0.0f);
  }
  return momentum;
}

absl::Status SyncPipeline::LoadMomentum(std::span<const float> momentum,
                                        std::span<const uint32_t> unsettled,
                                        std::span<const uint32_t> accounted, uint32_t round) {
  State& state = *state_;
  const uint64_t first = state.CoefficientBegin();
  if (const uint64_t wanted = state.CoefficientEnd() - first; momentum.size() != wanted) {
    return InvalidArgument("momentum: got ", momentum.size(), " coefficients, wanted ", wanted);
  }
  const auto bad = std::find_if(momentum.begin(), momentum.end(),
                                [](float value) { return !std::isfinite(value); });
  if (bad != momentum.end()) {
    return InvalidArgument("momentum: coefficient ", bad - momentum.begin(), " is ", *bad,
                           ", wanted finite numbers");
  }
  LONGWAVE_RETURN_IF_ERROR(state.ops->copy(state.exec, state.momentum.get() + first,
                                           momentum.data(), momentum.size() * sizeof(float)));
  // A checkpoint does not say which were returned: the residuals of the others are zeros in it.
  for (State::Segment& segment : state.segments) segment.given_back = true;
  for (const uint32_t segment : unsettled) {
    LONGWAVE_CHECK(segment < state.segments.size());
    state.segments[segment].given_back = false;
  }
  LONGWAVE_CHECK(accounted.empty() || accounted.size() == state.segments.size());
  for (size_t s = 0; s < accounted.size(); ++s) state.segments[s].accounted = accounted[s];
  for (const uint32_t segment : unsettled) {
    State::Segment& one = state.segments[segment];
    one.accounted_before = std::exchange(one.accounted, round + 1);
  }
  return state.ops->wait(state.exec);
}

std::vector<uint32_t> SyncPipeline::Accounted() const {
  std::vector<uint32_t> accounted;
  for (const State::Segment& segment : state_->segments) accounted.push_back(segment.accounted);
  return accounted;
}

absl::Status SyncPipeline::RestoreFrom(uint32_t segment, uint32_t round, const Buffer& payload) {
  State& state = *state_;
  if (!state.owned.Contains(segment)) {
    state.segments[segment].GiveBackAccounted(round);
    state.segments[segment].given_back = true;
    return absl::OkStatus();
  }
  // With topk a worker may restart with another k and codec than the payload's.
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(payload.bytes()));
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadLayout form,
                            PayloadLayout::Create(format, state.layout->TileSizes(segment)));
  LONGWAVE_RETURN_IF_ERROR(ValidatePayload(form, payload.bytes()));
  state.segments[segment].GiveBackAccounted(round);
  return state.Restore(segment, round, form, payload.bytes());
}

absl::Status SyncPipeline::DropResidual(uint32_t index) {
  State& state = *state_;
  state.segments[index].accounted = 0;
  if (!state.owned.Contains(index)) return absl::OkStatus();
  const Segment& segment = state.PlaceOf(index);
  const std::vector<float> nothing(segment.coefficient_count);
  LONGWAVE_RETURN_IF_ERROR(state.ops->copy(state.exec,
                                           state.momentum.get() + segment.coefficient_begin,
                                           nothing.data(), nothing.size() * sizeof(float)));
  return state.ops->wait(state.exec);
}

}  // namespace longwave
