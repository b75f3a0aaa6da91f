#include "worker/sync/pipeline.h"

#include <array>
#include <atomic>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "kernels/device_floats.h"

namespace longwave {
namespace {

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
  return absl::OkStatus();
}

struct SegmentState {
  PayloadLayout up;
  // Of its last merged update, whose format may change from round to round.
  std::optional<PayloadLayout> merged;
  // Reused from round to round once the socket has let go of it.
  std::shared_ptr<std::vector<std::byte>> payload;
  EncodeReport report;
  // Its encoding was begun in this round, and how that went is not told yet. Its slot is the
  // segment's index modulo their number.
  bool begun = false;
  bool taken = false;    // the residual of this round has lost what the payload holds
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
  DeviceFloats momentum;
  DeviceFloats velocity;
  std::vector<SegmentState> segments;
  std::array<bool, kEncodeSlots> under_way = {};  // slots whose encoding was not waited for
  uint32_t round = 0;
  double learning_rate = 0;

  float* anchor() const { return options.pseudo_gradient ? anchor_memory.get() : replica.theta; }

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

absl::Status SyncPipeline::BeginRound(uint32_t round, double learning_rate) {
  State& state = *state_;
  for (uint32_t s = 0; s < state.segments.size(); ++s) {
    // Begun in a round that was given up before its turn: back into the residual.
    if (state.segments[s].begun) LONGWAVE_RETURN_IF_ERROR(state.Drop(s));
  }
  state.round = round;
  state.learning_rate = learning_rate;
  for (SegmentState& segment : state.segments) segment.taken = segment.applied = false;
  return absl::OkStatus();
}

absl::Status SyncPipeline::State::Drop(uint32_t index) {
  LONGWAVE_RETURN_IF_ERROR(Finish(index % kEncodeSlots));
  segments[index].begun = false;
  const bool encoded = segments[index].report.nonfinite_tile == EncodeReport::kNone;
  return encoded ? Restore(index) : absl::OkStatus();
}

absl::Status SyncPipeline::State::Begin(uint32_t index) {
  SegmentState& segment = segments[index];
  const uint32_t slot = index % kEncodeSlots;
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
  segment.report = {.nonfinite_tile = 0};  // until it is finished, nothing that could be sent
  LONGWAVE_RETURN_IF_ERROR(ops->encode(exec, args));
  under_way[slot] = segment.begun = true;
  return absl::OkStatus();
}

absl::StatusOr<SyncPipeline::Push> SyncPipeline::Encode(uint32_t index) {
  State& state = *state_;
  LONGWAVE_CHECK(index < state.segments.size());
  SegmentState& segment = state.segments[index];
  if (!segment.begun) LONGWAVE_RETURN_IF_ERROR(state.Begin(index));
  // Where encoding goes on while the host does something else, the next segment's begins before
  // this one's is waited for: one is computed while the other is copied and sent.
  const uint32_t next = index + 1;
  if (state.ops->on_device && next < state.segments.size() && !state.segments[next].begun &&
      !state.segments[next].taken) {
    LONGWAVE_RETURN_IF_ERROR(state.Begin(next));
  }
  LONGWAVE_RETURN_IF_ERROR(state.Finish(index % kEncodeSlots));
  segment.begun = false;
  if (segment.report.nonfinite_tile != EncodeReport::kNone) {
    return absl::DataLossError(absl::StrCat(
        "round ", state.round, ", segment ", index, ", tile ", segment.report.nonfinite_tile,
        ": the signal has a NaN or an infinity, wanted finite numbers"));
  }
  segment.taken = true;
  return Push{.payload = Buffer(*segment.payload, segment.payload),
              .norm = static_cast<float>(std::sqrt(segment.report.sent_square_sum))};
}

absl::Status SyncPipeline::State::Restore(uint32_t index) {
  const SegmentState& segment = segments[index];
  const RestoreArgs args = {.layout = layout,
                            .segment = index,
                            .alpha = options.alpha,
                            .run_seed = options.run_seed,
                            .round = round,
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
  LONGWAVE_CHECK(index < state.segments.size());
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

absl::Status SyncPipeline::EndRound() {
  State& state = *state_;
  for (size_t s = 0; s < state.segments.size(); ++s) {
    if (!state.segments[s].applied) {
      return absl::FailedPreconditionError(
          absl::StrCat("round ", state.round, " ends without the merged update of segment ", s));
    }
  }
  if (state.options.pseudo_gradient) {
    LONGWAVE_RETURN_IF_ERROR(state.ops->copy(state.exec, state.replica.theta, state.anchor(),
                                             state.layout->parameter_count() * sizeof(float)));
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
