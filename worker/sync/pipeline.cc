#include "worker/sync/pipeline.h"

#include <atomic>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

// Memory of a backend, released with its owner.
class DeviceFloats {
 public:
  DeviceFloats() = default;
  DeviceFloats(const KernelOps* ops, float* data) : ops_(ops), data_(data) {}
  DeviceFloats(DeviceFloats&& other) noexcept
      : ops_(other.ops_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceFloats& operator=(DeviceFloats&& other) noexcept {
    std::swap(ops_, other.ops_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceFloats() {
    if (data_ != nullptr) ops_->release(data_);
  }
  float* get() const { return data_; }

 private:
  const KernelOps* ops_ = nullptr;
  float* data_ = nullptr;
};

absl::StatusOr<DeviceFloats> Allocate(const KernelOps* ops, uint64_t count) {
  LONGWAVE_ASSIGN_OR_RETURN(void* memory, ops->allocate(count * sizeof(float)));
  return DeviceFloats(ops, static_cast<float*>(memory));
}

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
  bool taken = false;    // the residual of this round has lost what the payload holds
  bool applied = false;  // this round's merged update is in the anchor
};

}  // namespace

struct SyncPipeline::State {
  SyncOptions options;
  const Layout* layout;
  const KernelOps* ops;
  Exec exec;
  ReplicaView replica;
  DeviceFloats anchor_memory;  // for a pseudo-gradient; a gradient's anchor is the replica itself
  DeviceFloats momentum;
  DeviceFloats velocity;
  std::vector<SegmentState> segments;
  uint32_t round = 0;
  double learning_rate = 0;

  float* anchor() const { return options.pseudo_gradient ? anchor_memory.get() : replica.theta; }

  Signal MakeSignal() const {
    if (options.pseudo_gradient) return {.a = anchor(), .b = replica.theta};
    const float scale = options.scale_by_learning_rate ? static_cast<float>(learning_rate) : 1.0f;
    return {.a = replica.gradient, .scale = scale};
  }

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
  state->replica = replica;
  const uint64_t parameters = layout->parameter_count();
  LONGWAVE_ASSIGN_OR_RETURN(state->momentum, Allocate(ops, layout->coefficient_count()));
  if (options.pseudo_gradient) {
    LONGWAVE_ASSIGN_OR_RETURN(state->anchor_memory, Allocate(ops, parameters));
    LONGWAVE_RETURN_IF_ERROR(
        ops->copy(exec, state->anchor_memory.get(), replica.theta, parameters * sizeof(float)));
  }
  if (options.update == UpdateKind::kNesterov) {
    LONGWAVE_ASSIGN_OR_RETURN(state->velocity, Allocate(ops, parameters));
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
  state_->round = round;
  state_->learning_rate = learning_rate;
  for (SegmentState& segment : state_->segments) segment.taken = segment.applied = false;
  return absl::OkStatus();
}

absl::StatusOr<SyncPipeline::Push> SyncPipeline::Encode(uint32_t index) {
  State& state = *state_;
  LONGWAVE_CHECK(index < state.segments.size());
  SegmentState& segment = state.segments[index];
  if (segment.payload != nullptr && segment.payload.use_count() == 1) {
    // The count is read relaxed; what the socket's thread read before it let go comes first.
    std::atomic_thread_fence(std::memory_order_acquire);
  } else {
    segment.payload = std::make_shared<std::vector<std::byte>>(segment.up.bytes());
  }
  const EncodeArgs args = {.layout = state.layout,
                           .segment = index,
                           .signal = state.MakeSignal(),
                           .transform = state.options.transform,
                           .beta = state.options.beta,
                           .alpha = state.options.alpha,
                           .run_seed = state.options.run_seed,
                           .round = state.round,
                           .momentum = state.momentum.get(),
                           .payload_layout = &segment.up,
                           .payload = *segment.payload,
                           .report = &segment.report};
  LONGWAVE_RETURN_IF_ERROR(state.ops->encode(state.exec, args));
  LONGWAVE_RETURN_IF_ERROR(state.ops->finish(state.exec, args.slot));
  if (segment.report.nonfinite_tile != EncodeReport::kNone) {
    return absl::DataLossError(absl::StrCat(
        "round ", state.round, ", segment ", index, ", tile ", segment.report.nonfinite_tile,
        ": the signal has a NaN or an infinity, wanted finite numbers"));
  }
  segment.taken = true;
  return Push{.payload = Buffer(*segment.payload, segment.payload),
              .norm = static_cast<float>(std::sqrt(segment.report.sent_square_sum))};
}

absl::Status SyncPipeline::Restore(uint32_t index) {
  State& state = *state_;
  SegmentState& segment = state.segments[index];
  if (!segment.taken) return absl::OkStatus();
  segment.taken = false;
  const RestoreArgs args = {.layout = state.layout,
                            .segment = index,
                            .alpha = state.options.alpha,
                            .run_seed = state.options.run_seed,
                            .round = state.round,
                            .momentum = state.momentum.get(),
                            .payload_layout = &segment.up,
                            .payload = *segment.payload};
  return state.ops->restore(state.exec, args);
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
