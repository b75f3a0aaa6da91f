#include "worker/sync/pipeline.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/layout/segment_elements.h"
#include "worker/sync/pipeline_state.h"

namespace longwave {
namespace {

// Size of the scratch through which θ and the anchor are exchanged.
constexpr uint64_t kSwapElements = uint64_t{1} << 20;

absl::Status CheckOptions(const SyncOptions& options, const ReplicaView& replica) {
  if (replica.theta == nullptr) return InvalidArgument("sync: the replica has no theta");
  const bool needs_gradient = !options.pseudo_gradient || options.update == UpdateKind::kInner;
  if (needs_gradient && replica.gradient == nullptr) {
    return InvalidArgument("sync: the replica has no gradient, which these options need");
  }
  if (options.update == UpdateKind::kInner && options.pseudo_gradient) {
    return InvalidArgument("sync: update inner: got a pseudo-gradient signal, wanted a gradient");
  }
  const bool in_parts = options.overlapped || options.fragments > 1;
  if (in_parts && (!options.pseudo_gradient || options.update == UpdateKind::kLocal)) {
    return InvalidArgument(
        "sync: overlap and fragments: got a gradient signal or update local, wanted a "
        "pseudo-gradient and an update that moves all anchors alike");
  }
  return absl::OkStatus();
}

}  // namespace

SyncPipeline::SyncPipeline(std::unique_ptr<State> state) : state_(std::move(state)) {}
SyncPipeline::~SyncPipeline() = default;

absl::StatusOr<std::unique_ptr<SyncPipeline>> SyncPipeline::Create(const SyncOptions& options,
                                                                   const Layout* layout,
                                                                   const KernelOps* ops, Exec exec,
                                                                   ReplicaView replica,
                                                                   SegmentRange owned) {
  LONGWAVE_RETURN_IF_ERROR(CheckOptions(options, replica));
  LONGWAVE_CHECK(owned.begin <= owned.end && owned.end <= layout->segments().size());
  auto state = std::make_unique<State>();
  state->options = options;
  state->layout = layout;
  state->ops = ops;
  state->exec = exec;
  // The owner of encode slots, which pipelines on one stream do not share.
  state->exec.owner = state.get();
  state->replica = replica;
  state->owned = owned;
  LONGWAVE_ASSIGN_OR_RETURN(state->momentum, DeviceFloats::Create(ops, state->CoefficientBegin(),
                                                                  state->CoefficientEnd()));
  const uint32_t fragment_count = FragmentCount(options.fragments, *layout);
  for (uint32_t f = 0; f < fragment_count; ++f) {
    state->elements.push_back(FragmentElements(*layout, f, fragment_count, owned));
  }
  state->owned_elements = FragmentElements(*layout, 0, 1, owned);
  const auto& elements = state->owned_elements;
  const auto allocate = [&] {
    return elements.empty()
               ? DeviceFloats::Create(ops, 0)
               : DeviceFloats::Create(ops, elements.front().begin, elements.back().end);
  };
  if (options.pseudo_gradient) {
    LONGWAVE_ASSIGN_OR_RETURN(state->anchor_memory, allocate());
    LONGWAVE_RETURN_IF_ERROR(state->Copy(elements, state->anchor_memory.get(), replica.theta));
  }
  if (state->KeepsBase()) {
    LONGWAVE_ASSIGN_OR_RETURN(state->base, allocate());
  }
  if (options.update == UpdateKind::kNesterov) {
    LONGWAVE_ASSIGN_OR_RETURN(state->velocity, allocate());
  }
  for (uint32_t s = 0; s < layout->segments().size(); ++s) {
    LONGWAVE_ASSIGN_OR_RETURN(PayloadLayout up,
                              PayloadLayout::Create(options.up, layout->TileSizes(s)));
    state->segments.push_back(
        {.up = std::move(up), .merged = {}, .payload = nullptr, .report = {}});
  }
  LONGWAVE_RETURN_IF_ERROR(ops->wait(exec));
  return std::unique_ptr<SyncPipeline>(new SyncPipeline(std::move(state)));
}

absl::Status SyncPipeline::State::Copy(std::span<const ElementRange> ranges, float* to,
                                       const float* from) const {
  for (const auto& [begin, end] : ranges) {
    LONGWAVE_RETURN_IF_ERROR(
        ops->copy(exec, to + begin, from + begin, (end - begin) * sizeof(float)));
  }
  return absl::OkStatus();
}

uint32_t SyncPipeline::fragment_count() const { return state_->fragment_count(); }

bool SyncPipeline::owns(uint32_t segment) const { return state_->owned.Contains(segment); }

absl::Status SyncPipeline::BeginFragment(uint32_t round, uint32_t fragment, double learning_rate) {
  State& state = *state_;
  LONGWAVE_CHECK(fragment < state.fragment_count());
  for (uint32_t s = 0; s < state.segments.size(); ++s) {
    // Encodings begun in an abandoned round return to the residual.
    if (state.segments[s].begun) LONGWAVE_RETURN_IF_ERROR(state.Drop(s));
  }
  state.round = round;
  state.fragment = fragment;
  state.learning_rate = learning_rate;
  for (size_t s = fragment; s < state.segments.size(); s += state.fragment_count()) {
    state.segments[s].taken = state.segments[s].applied = false;
  }
  if (!state.KeepsBase()) return absl::OkStatus();
  return state.Copy(state.elements[fragment], state.base.get(), state.replica.theta);
}

absl::Status SyncPipeline::State::Drop(uint32_t index) {
  LONGWAVE_RETURN_IF_ERROR(Finish(Slot(index)));
  segments[index].begun = false;
  const bool encoded = segments[index].report.nonfinite_tile == EncodeReport::kNone;
  return encoded ? Restore(index) : absl::OkStatus();
}

absl::Status SyncPipeline::State::Begin(uint32_t index) {
  State::Segment& segment = segments[index];
  const uint32_t slot = Slot(index);
  LONGWAVE_RETURN_IF_ERROR(Finish(slot));
  if (segment.payload != nullptr && segment.payload.use_count() == 1) {
    // use_count() is a relaxed read; the fence orders it after the socket thread's reads.
    std::atomic_thread_fence(std::memory_order_acquire);
  } else {
    segment.payload = std::make_shared<std::vector<std::byte>>(segment.up.bytes());
  }
  const EncodeArgs args = {.layout = layout,
                           .segment = index,
                           .signal = MakeSignal(),
                           .transform = options.transform,
                           .beta = Decay(segment),
                           .alpha = options.alpha,
                           .run_seed = options.run_seed,
                           .round = round,
                           .momentum = momentum.get(),
                           .payload_layout = &segment.up,
                           .payload = *segment.payload,
                           .report = &segment.report,
                           .slot = slot};
  segment.round = round;
  segment.report = {.nonfinite_tile = 0};  // unfinished: cannot be sent
  LONGWAVE_RETURN_IF_ERROR(ops->encode(exec, args));
  under_way[slot] = segment.begun = true;
  return absl::OkStatus();
}

absl::StatusOr<SyncPipeline::Push> SyncPipeline::Encode(uint32_t index) {
  State& state = *state_;
  LONGWAVE_CHECK(index % state.fragment_count() == state.fragment);
  State::Segment& segment = state.segments[index];
  if (state.owned.Contains(index)) LONGWAVE_RETURN_IF_ERROR(state.FinishEncoding(index));
  segment.taken = true;
  segment.given_back = false;
  const double norm = std::sqrt(segment.report.sent_square_sum);
  if (norm > double{std::numeric_limits<float>::max()}) {
    return DataLoss("round ", state.round, ", segment ", index, ": the signal's norm is ", norm,
                    ", wanted at most that of the largest fp32");
  }
  segment.accounted_before = std::exchange(segment.accounted, state.round + 1);
  Push push{.payload = {}, .norm = static_cast<float>(norm), .accounted = segment.accounted_before};
  if (state.owned.Contains(index)) push.payload = Buffer(*segment.payload, segment.payload);
  return push;
}

absl::Status SyncPipeline::State::FinishEncoding(uint32_t index) {
  Segment& segment = segments[index];
  if (!segment.begun) LONGWAVE_RETURN_IF_ERROR(Begin(index));
  // On a device the next segment's encoding begins before the wait for this one, so that one is
  // computed while the other is copied and sent.
  const uint32_t next = index + fragment_count();
  if (ops->on_device && owned.Contains(next) && !segments[next].begun && !segments[next].taken)
    LONGWAVE_RETURN_IF_ERROR(Begin(next));
  LONGWAVE_RETURN_IF_ERROR(Finish(Slot(index)));
  segment.begun = false;
  if (segment.report.nonfinite_tile == EncodeReport::kNone) return absl::OkStatus();
  return DataLoss("round ", round, ", segment ", index, ", tile ", segment.report.nonfinite_tile,
                  ": the signal has a NaN or an infinity, wanted finite numbers");
}

absl::Status SyncPipeline::State::Restore(uint32_t index) {
  Segment& segment = segments[index];
  if (owned.Contains(index)) return Restore(index, segment.round, segment.up, *segment.payload);
  segment.given_back = true;
  return absl::OkStatus();
}

absl::Status SyncPipeline::State::Restore(uint32_t index, uint32_t of_round,
                                          const PayloadLayout& form,
                                          std::span<const std::byte> payload) {
  const RestoreArgs args = {.layout = layout,
                            .segment = index,
                            .alpha = options.alpha,
                            .run_seed = options.run_seed,
                            .round = of_round,
                            .momentum = momentum.get(),
                            .payload_layout = &form,
                            .payload = payload};
  LONGWAVE_RETURN_IF_ERROR(ops->restore(exec, args));
  segments[index].given_back = true;
  return absl::OkStatus();
}

absl::Status SyncPipeline::Restore(uint32_t index) {
  State& state = *state_;
  State::Segment& segment = state.segments[index];
  if (!segment.taken) return absl::OkStatus();
  segment.taken = false;
  segment.GiveBackAccounted(state.round);
  return state.Restore(index);
}

absl::Status SyncPipeline::Apply(uint32_t index, const Buffer& merged) {
  State& state = *state_;
  LONGWAVE_CHECK(index % state.fragment_count() == state.fragment);
  State::Segment& segment = state.segments[index];
  if (segment.applied) return absl::OkStatus();
  // A snapshot may have led beyond the round, whose update must not be applied twice.
  if (segment.anchor_round != state.round) {
    return FailedPrecondition("segment ", index, ": got the merged update of round ", state.round,
                              ", wanted that of round ", segment.anchor_round,
                              ", where its anchor stands");
  }
  LONGWAVE_RETURN_IF_ERROR(state.Update(index, state.round, state.learning_rate, merged));
  segment.applied = true;
  return absl::OkStatus();
}

absl::Status SyncPipeline::State::Update(uint32_t index, uint32_t at_round, double at_learning_rate,
                                         const Buffer& update) {
  Segment& segment = segments[index];
  if (!owned.Contains(index)) {
    segment.anchor_round = at_round + 1;
    return absl::OkStatus();
  }
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(update.bytes()));
  std::optional<PayloadLayout>& merged = segment.merged;
  if (!merged.has_value() || merged->format() != format) {
    LONGWAVE_ASSIGN_OR_RETURN(merged, PayloadLayout::Create(format, layout->TileSizes(index)));
  }
  LONGWAVE_RETURN_IF_ERROR(ValidatePayload(*merged, update.bytes()));
  const float eta = Eta(at_learning_rate);
  const DecodeUpdateArgs args = {.layout = layout,
                                 .segment = index,
                                 .transform = options.transform,
                                 .update = options.update,
                                 .eta = eta,
                                 .mu = options.mu,
                                 .keep = 1.0f - eta * options.weight_decay,
                                 .run_seed = options.run_seed,
                                 .round = at_round,
                                 .payload_layout = &*merged,
                                 .payload = update.bytes(),
                                 .theta = anchor(),
                                 .velocity = velocity.get(),
                                 .gradient = replica.gradient,
                                 .signal = MakeSignal(),
                                 .beta = options.beta,
                                 .momentum = momentum.get()};
  LONGWAVE_RETURN_IF_ERROR(ops->decode_update(exec, args));
  segment.anchor_round = at_round + 1;
  return absl::OkStatus();
}

absl::Status SyncPipeline::State::Blend() {
  for (const auto& [begin, end] : elements[fragment]) {
    const BlendArgs args = {.begin = begin,
                            .end = end,
                            .theta = replica.theta,
                            .anchor = anchor(),
                            .base = base.get(),
                            .alpha = KeepsBase() ? options.blend : 0};
    LONGWAVE_RETURN_IF_ERROR(ops->blend(exec, args));
  }
  return absl::OkStatus();
}

absl::Status SyncPipeline::EndFragment() {
  State& state = *state_;
  for (uint32_t s = state.owned.begin; s < state.owned.end; ++s) {
    if (s % state.fragment_count() == state.fragment && !state.segments[s].applied) {
      return FailedPrecondition("round ", state.round,
                                " ends without the merged update of segment ", s);
    }
  }
  if (!state.InPlace()) LONGWAVE_RETURN_IF_ERROR(state.Blend());
  return state.ops->wait(state.exec);
}

absl::Status SyncPipeline::SwapAnchor() {
  State& state = *state_;
  if (!state.InParts()) return absl::OkStatus();
  if (state.swap.get() == nullptr) {
    LONGWAVE_ASSIGN_OR_RETURN(
        state.swap,
        DeviceFloats::Create(state.ops, std::min(state.layout->parameter_count(), kSwapElements)));
  }
  const auto copy = [&](float* to, const float* from, uint64_t count) {
    return state.ops->copy(state.exec, to, from, count * sizeof(float));
  };
  for (const ElementRange& range : state.owned_elements) {
    for (uint64_t begin = range.begin; begin < range.end; begin += kSwapElements) {
      const uint64_t count = std::min(kSwapElements, range.end - begin);
      float* const theta = state.replica.theta + begin;
      float* const anchor = state.anchor() + begin;
      LONGWAVE_RETURN_IF_ERROR(copy(state.swap.get(), theta, count));
      LONGWAVE_RETURN_IF_ERROR(copy(theta, anchor, count));
      LONGWAVE_RETURN_IF_ERROR(copy(anchor, state.swap.get(), count));
    }
  }
  return state.ops->wait(state.exec);
}

absl::StatusOr<std::vector<uint64_t>> SyncPipeline::Hashes() {
  State& state = *state_;
  const uint32_t segments = state.owned.end - state.owned.begin;
  if (segments == 0) return std::vector<uint64_t>();
  std::vector<std::vector<uint64_t>> of_arrays;
  for (const float* array : state.SegmentArrays()) {
    std::vector<uint64_t>& hashes = of_arrays.emplace_back(segments);
    const HashArgs args = {.layout = state.layout,
                           .segment_begin = state.owned.begin,
                           .theta = array,
                           .hashes = hashes};
    LONGWAVE_RETURN_IF_ERROR(state.ops->hash(state.exec, args));
  }
  std::vector<uint64_t> hashes;
  for (uint32_t s = 0; s < segments; ++s) {
    std::vector<uint64_t> of_segment;
    of_segment.reserve(of_arrays.size());
    for (const std::vector<uint64_t>& all : of_arrays) of_segment.push_back(all[s]);
    hashes.push_back(StateHash(of_segment));
  }
  return hashes;
}

const float* SyncPipeline::anchor() const { return state_->anchor(); }
const float* SyncPipeline::momentum() const { return state_->momentum.get(); }
const EncodeReport& SyncPipeline::report(uint32_t segment) const {
  return state_->segments[segment].report;
}

}  // namespace longwave
