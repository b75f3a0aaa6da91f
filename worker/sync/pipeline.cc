#include "worker/sync/pipeline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "kernels/device_floats.h"
#include "worker/sync/fragments.h"

namespace longwave {
namespace {

// Of the scratch through which θ and the anchor change places.
constexpr uint64_t kSwapElements = uint64_t{1} << 20;

absl::Status CheckOptions(const SyncOptions& options, const ReplicaView& replica) {
  if (replica.theta == nullptr) return absl::InvalidArgumentError("sync: the replica has no theta");
  const bool needs_gradient = !options.pseudo_gradient || options.update == UpdateKind::kInner;
  if (needs_gradient && replica.gradient == nullptr) {
    return absl::InvalidArgumentError(
        "sync: the replica has no gradient, which these options need");
  }
  if (options.update == UpdateKind::kInner && options.pseudo_gradient) {
    return absl::InvalidArgumentError(
        "sync: update inner: got a pseudo-gradient signal, wanted a gradient");
  }
  const bool in_parts = options.overlapped || options.fragments > 1;
  if (in_parts && (!options.pseudo_gradient || options.update == UpdateKind::kLocal)) {
    return absl::InvalidArgumentError(
        "sync: overlap and fragments: got a gradient signal or update local, wanted a "
        "pseudo-gradient and an update that moves all anchors alike");
  }
  return absl::OkStatus();
}

struct SegmentState {
  PayloadLayout up;
  // Of its last merged update, whose format may change from round to round.
  std::optional<PayloadLayout> merged;
  // Reused from round to round once the socket has let go of it.
  std::shared_ptr<std::vector<std::byte>> payload;
  EncodeReport report;
  uint32_t round = 0;    // of the payload
  bool begun = false;    // its encoding was, and how that went is not told yet
  bool taken = false;    // the residual has lost what the payload holds
  bool applied = false;  // this round's merged update is in the anchor
};

}  // namespace

struct SyncPipeline::State {
  // What is under way writes into the segments' payloads.
  ~State() {
    for (uint32_t slot = 0; slot < kEncodeSlots; ++slot) static_cast<void>(Finish(slot));
  }

  SyncOptions options;
  const Layout* layout;
  const KernelOps* ops;
  Exec exec;
  ReplicaView replica;
  DeviceFloats anchor_memory;  // for a pseudo-gradient; a gradient's anchor is the replica itself
  DeviceFloats base;           // θᵢ at the last signals, where an overlap is to keep some of it
  DeviceFloats swap;           // from the first SwapAnchor on
  DeviceFloats momentum;
  DeviceFloats velocity;
  std::vector<SegmentState> segments;
  std::array<bool, kEncodeSlots> under_way = {};    // slots whose encoding was not waited for
  std::vector<std::vector<ElementRange>> elements;  // of each fragment
  uint32_t round = 0;
  uint32_t fragment = 0;
  double learning_rate = 0;

  float* anchor() const { return options.pseudo_gradient ? anchor_memory.get() : replica.theta; }

  uint32_t fragment_count() const { return static_cast<uint32_t>(elements.size()); }
  bool InPlace() const { return !options.pseudo_gradient; }
  bool InParts() const { return options.overlapped || fragment_count() > 1; }
  bool KeepsBase() const { return options.overlapped && options.blend > 0; }
  // Neighbours in a fragment take different slots.
  uint32_t Slot(uint32_t index) const { return index / fragment_count() % kEncodeSlots; }

  Signal MakeSignal() const {
    if (options.pseudo_gradient) return {.a = anchor(), .b = replica.theta};
    const float scale = options.scale_by_learning_rate ? static_cast<float>(learning_rate) : 1.0f;
    return {.a = replica.gradient, .scale = scale};
  }

  // Waits for the slot's encoding, if one is under way.
  absl::Status Finish(uint32_t slot) {
    if (!std::exchange(under_way[slot], false)) return absl::OkStatus();
    return ops->finish(exec, slot);
  }

  // Enqueues the segment's encoding.
  absl::Status Begin(uint32_t index);
  // Takes back one that was begun and will not be sent.
  absl::Status Drop(uint32_t index);
  absl::Status Restore(uint32_t index);
  // θ ← anchor + blend·(θ − base) over the fragment's elements.
  absl::Status Blend();

  float Eta() const {
    return options.eta_follows_learning_rate ? static_cast<float>(options.eta * learning_rate)
                                             : options.eta;
  }
};

SyncPipeline::SyncPipeline(std::unique_ptr<State> state) : state_(std::move(state)) {}
SyncPipeline::~SyncPipeline() = default;

absl::StatusOr<std::unique_ptr<SyncPipeline>> SyncPipeline::Create(const SyncOptions& options,
                                                                   const Layout* layout,
                                                                   const KernelOps* ops, Exec exec,
                                                                   ReplicaView replica) {
  LONGWAVE_RETURN_IF_ERROR(CheckOptions(options, replica));
  auto state = std::make_unique<State>();
  state->options = options;
  state->layout = layout;
  state->ops = ops;
  state->exec = exec;
  // Of its encode slots, which pipelines on one stream do not share.
  state->exec.owner = state.get();
  state->replica = replica;
  const uint64_t parameters = layout->parameter_count();
  LONGWAVE_ASSIGN_OR_RETURN(state->momentum,
                            DeviceFloats::Create(ops, layout->coefficient_count()));
  if (options.pseudo_gradient) {
    LONGWAVE_ASSIGN_OR_RETURN(state->anchor_memory, DeviceFloats::Create(ops, parameters));
    LONGWAVE_RETURN_IF_ERROR(
        ops->copy(exec, state->anchor_memory.get(), replica.theta, parameters * sizeof(float)));
  }
  const uint32_t fragment_count = FragmentCount(options.fragments, *layout);
  for (uint32_t f = 0; f < fragment_count; ++f) {
    state->elements.push_back(FragmentElements(*layout, f, fragment_count));
  }
  if (state->KeepsBase()) {
    LONGWAVE_ASSIGN_OR_RETURN(state->base, DeviceFloats::Create(ops, parameters));
  }
  if (options.update == UpdateKind::kNesterov) {
    LONGWAVE_ASSIGN_OR_RETURN(state->velocity, DeviceFloats::Create(ops, parameters));
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

uint32_t SyncPipeline::fragment_count() const { return state_->fragment_count(); }

absl::Status SyncPipeline::BeginFragment(uint32_t round, uint32_t fragment, double learning_rate) {
  State& state = *state_;
  LONGWAVE_CHECK(fragment < state.fragment_count());
  for (uint32_t s = 0; s < state.segments.size(); ++s) {
    // Begun in a round that was given up before its turn: back into the residual.
    if (state.segments[s].begun) LONGWAVE_RETURN_IF_ERROR(state.Drop(s));
  }
  state.round = round;
  state.fragment = fragment;
  state.learning_rate = learning_rate;
  for (size_t s = fragment; s < state.segments.size(); s += state.fragment_count()) {
    state.segments[s].taken = state.segments[s].applied = false;
  }
  if (!state.KeepsBase()) return absl::OkStatus();
  for (const auto& [begin, end] : state.elements[fragment]) {
    LONGWAVE_RETURN_IF_ERROR(state.ops->copy(state.exec, state.base.get() + begin,
                                             state.replica.theta + begin,
                                             (end - begin) * sizeof(float)));
  }
  return absl::OkStatus();
}

absl::Status SyncPipeline::State::Drop(uint32_t index) {
  LONGWAVE_RETURN_IF_ERROR(Finish(Slot(index)));
  segments[index].begun = false;
  const bool encoded = segments[index].report.nonfinite_tile == EncodeReport::kNone;
  return encoded ? Restore(index) : absl::OkStatus();
}

absl::Status SyncPipeline::State::Begin(uint32_t index) {
  SegmentState& segment = segments[index];
  const uint32_t slot = Slot(index);
  LONGWAVE_RETURN_IF_ERROR(Finish(slot));
  if (segment.payload != nullptr && segment.payload.use_count() == 1) {
    // The count is read relaxed; what the socket's thread read before it let go comes first.
    std::atomic_thread_fence(std::memory_order_acquire);
  } else {
    segment.payload = std::make_shared<std::vector<std::byte>>(segment.up.bytes());
  }
  const EncodeArgs args = {.layout = layout,
                           .segment = index,
                           .signal = MakeSignal(),
                           .transform = options.transform,
                           .beta = options.beta,
                           .alpha = options.alpha,
                           .run_seed = options.run_seed,
                           .round = round,
                           .momentum = momentum.get(),
                           .payload_layout = &segment.up,
                           .payload = *segment.payload,
                           .report = &segment.report,
                           .slot = slot};
  segment.round = round;
  segment.report = {.nonfinite_tile = 0};  // until it is finished, nothing that could be sent
  LONGWAVE_RETURN_IF_ERROR(ops->encode(exec, args));
  under_way[slot] = segment.begun = true;
  return absl::OkStatus();
}

absl::StatusOr<SyncPipeline::Push> SyncPipeline::Encode(uint32_t index) {
  State& state = *state_;
  LONGWAVE_CHECK(index < state.segments.size() && index % state.fragment_count() == state.fragment);
  SegmentState& segment = state.segments[index];
  if (!segment.begun) LONGWAVE_RETURN_IF_ERROR(state.Begin(index));
  // Where encoding goes on while the host does something else, the next segment's begins before
  // this one's is waited for: one is computed while the other is copied and sent.
  const uint32_t next = index + state.fragment_count();
  if (state.ops->on_device && next < state.segments.size() && !state.segments[next].begun &&
      !state.segments[next].taken) {
    LONGWAVE_RETURN_IF_ERROR(state.Begin(next));
  }
  LONGWAVE_RETURN_IF_ERROR(state.Finish(state.Slot(index)));
  segment.begun = false;
  if (segment.report.nonfinite_tile != EncodeReport::kNone) {
    return absl::DataLossError(absl::StrCat(
        "round ", state.round, ", segment ", index, ", tile ", segment.report.nonfinite_tile,
        ": the signal has a NaN or an infinity, wanted finite numbers"));
  }
  segment.taken = true;
  const double norm = std::sqrt(segment.report.sent_square_sum);
  if (norm > double{std::numeric_limits<float>::max()}) {
    return absl::DataLossError(absl::StrCat("round ", state.round, ", segment ", index,
                                            ": the signal's norm is ", norm,
                                            ", wanted at most that of the largest fp32"));
  }
  return Push{.payload = Buffer(*segment.payload, segment.payload),
              .norm = static_cast<float>(norm)};
}

absl::Status SyncPipeline::State::Restore(uint32_t index) {
  const SegmentState& segment = segments[index];
  const RestoreArgs args = {.layout = layout,
                            .segment = index,
                            .alpha = options.alpha,
                            .run_seed = options.run_seed,
                            .round = segment.round,
                            .momentum = momentum.get(),
                            .payload_layout = &segment.up,
                            .payload = *segment.payload};
  return ops->restore(exec, args);
}

absl::Status SyncPipeline::Restore(uint32_t index) {
  State& state = *state_;
  SegmentState& segment = state.segments[index];
  if (!segment.taken) return absl::OkStatus();
  segment.taken = false;
  return state.Restore(index);
}

absl::Status SyncPipeline::Apply(uint32_t index, const Buffer& merged) {
  State& state = *state_;
  LONGWAVE_CHECK(index < state.segments.size() && index % state.fragment_count() == state.fragment);
  SegmentState& segment = state.segments[index];
  if (segment.applied) return absl::OkStatus();
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(merged.bytes()));
  std::optional<PayloadLayout>& layout = segment.merged;
  if (!layout.has_value() || layout->format() != format) {
    LONGWAVE_ASSIGN_OR_RETURN(layout,
                              PayloadLayout::Create(format, state.layout->TileSizes(index)));
  }
  LONGWAVE_RETURN_IF_ERROR(ValidatePayload(*layout, merged.bytes()));
  const float eta = state.Eta();
  const DecodeUpdateArgs args = {.layout = state.layout,
                                 .segment = index,
                                 .transform = state.options.transform,
                                 .update = state.options.update,
                                 .eta = eta,
                                 .mu = state.options.mu,
                                 .keep = 1.0f - eta * state.options.weight_decay,
                                 .run_seed = state.options.run_seed,
                                 .round = state.round,
                                 .payload_layout = &*layout,
                                 .payload = merged.bytes(),
                                 .theta = state.anchor(),
                                 .velocity = state.velocity.get(),
                                 .gradient = state.replica.gradient,
                                 .signal = state.MakeSignal(),
                                 .beta = state.options.beta,
                                 .momentum = state.momentum.get()};
  LONGWAVE_RETURN_IF_ERROR(state.ops->decode_update(state.exec, args));
  segment.applied = true;
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
  for (size_t s = state.fragment; s < state.segments.size(); s += state.fragment_count()) {
    if (!state.segments[s].applied) {
      return absl::FailedPreconditionError(
          absl::StrCat("round ", state.round, " ends without the merged update of segment ", s));
    }
  }
  if (!state.InPlace()) LONGWAVE_RETURN_IF_ERROR(state.Blend());
  return state.ops->wait(state.exec);
}

absl::Status SyncPipeline::SwapAnchor() {
  State& state = *state_;
  if (!state.InParts()) return absl::OkStatus();
  const uint64_t parameters = state.layout->parameter_count();
  if (state.swap.get() == nullptr) {
    LONGWAVE_ASSIGN_OR_RETURN(state.swap,
                              DeviceFloats::Create(state.ops, std::min(parameters, kSwapElements)));
  }
  const auto copy = [&](float* to, const float* from, uint64_t count) {
    return state.ops->copy(state.exec, to, from, count * sizeof(float));
  };
  for (uint64_t begin = 0; begin < parameters; begin += kSwapElements) {
    const uint64_t count = std::min(kSwapElements, parameters - begin);
    float* const theta = state.replica.theta + begin;
    float* const anchor = state.anchor() + begin;
    LONGWAVE_RETURN_IF_ERROR(copy(state.swap.get(), theta, count));
    LONGWAVE_RETURN_IF_ERROR(copy(theta, anchor, count));
    LONGWAVE_RETURN_IF_ERROR(copy(anchor, state.swap.get(), count));
  }
  return state.ops->wait(state.exec);
}

absl::StatusOr<std::vector<uint64_t>> SyncPipeline::Hashes() {
  State& state = *state_;
  std::vector<uint64_t> hashes(state.segments.size());
  const HashArgs args = {.layout = state.layout, .theta = state.anchor(), .hashes = hashes};
  LONGWAVE_RETURN_IF_ERROR(state.ops->hash(state.exec, args));
  return hashes;
}

const float* SyncPipeline::anchor() const { return state_->anchor(); }
const float* SyncPipeline::momentum() const { return state_->momentum.get(); }
const EncodeReport& SyncPipeline::report(uint32_t segment) const {
  return state_->segments[segment].report;
}

}  // namespace longwave
