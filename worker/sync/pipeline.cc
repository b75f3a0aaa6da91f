#include "worker/sync/pipeline.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "worker/sync/fragments.h"

namespace longwave {
namespace {

// Size of the scratch through which θ and the anchor are exchanged.
constexpr uint64_t kSwapElements = uint64_t{1} << 20;

// Encodings that a device begins by one launch: enough tiles to keep it busy, and few enough
// segments for the first payload to leave soon.
constexpr size_t kBatchSegments = 16;
constexpr uint32_t kBatchTiles = 4096;

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

absl::Status TakeForm(const Layout& layout, uint32_t segment, std::span<const std::byte> update,
                      std::optional<PayloadLayout>& form) {
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(update));
  if (form.has_value() && form->format() == format) return absl::OkStatus();
  LONGWAVE_ASSIGN_OR_RETURN(form, PayloadLayout::Create(format, layout.TileSizes(segment)));
  return absl::OkStatus();
}

SyncPipeline::SyncPipeline(const SyncOptions& options, const Layout* layout, const KernelOps* ops,
                           Exec exec, ReplicaView replica, SegmentRange owned)
    : options_(options), layout_(layout), ops_(ops), exec_(exec), replica_(replica), owned_(owned) {
  exec_.owner = this;
}

SyncPipeline::~SyncPipeline() {
  for (uint32_t s = 0; s < segments_.size(); ++s) {
    if (segments_[s].begun) static_cast<void>(Finish(s));
  }
}

absl::StatusOr<std::unique_ptr<SyncPipeline>> SyncPipeline::Create(const SyncOptions& options,
                                                                   const Layout* layout,
                                                                   const KernelOps* ops, Exec exec,
                                                                   ReplicaView replica,
                                                                   SegmentRange owned) {
  LONGWAVE_RETURN_IF_ERROR(CheckOptions(options, replica));
  LONGWAVE_CHECK(owned.begin <= owned.end && owned.end <= layout->segments().size());
  std::unique_ptr<SyncPipeline> pipeline(
      new SyncPipeline(options, layout, ops, exec, replica, owned));
  LONGWAVE_RETURN_IF_ERROR(pipeline->Allocate());
  return pipeline;
}

absl::Status SyncPipeline::Allocate() {
  LONGWAVE_ASSIGN_OR_RETURN(momentum_,
                            DeviceFloats::Create(ops_, CoefficientBegin(), CoefficientEnd()));
  const uint32_t count = FragmentCount(options_.fragments, *layout_);
  for (uint32_t f = 0; f < count; ++f) {
    elements_.push_back(FragmentElements(*layout_, f, count, owned_));
  }
  owned_elements_ = FragmentElements(*layout_, 0, 1, owned_);
  const auto allocate = [&] {
    return owned_elements_.empty() ? DeviceFloats::Create(ops_, 0)
                                   : DeviceFloats::Create(ops_, owned_elements_.front().begin,
                                                          owned_elements_.back().end);
  };
  if (options_.pseudo_gradient) {
    LONGWAVE_ASSIGN_OR_RETURN(anchor_, allocate());
    LONGWAVE_RETURN_IF_ERROR(Copy(owned_elements_, anchor_.get(), replica_.theta));
  }
  if (KeepsBase()) {
    LONGWAVE_ASSIGN_OR_RETURN(base_, allocate());
  }
  if (options_.update == UpdateKind::kNesterov) {
    LONGWAVE_ASSIGN_OR_RETURN(velocity_, allocate());
  }
  for (uint32_t s = 0; s < layout_->segments().size(); ++s) {
    LONGWAVE_ASSIGN_OR_RETURN(PayloadLayout up,
                              PayloadLayout::Create(options_.up, layout_->TileSizes(s)));
    segments_.push_back(
        {.up = std::move(up), .merged = {}, .payload = {}, .memory = nullptr, .report = {}});
  }
  return ops_->wait(exec_);
}

absl::Status SyncPipeline::Copy(std::span<const ElementRange> ranges, float* to,
                                const float* from) const {
  for (const auto& [begin, end] : ranges) {
    LONGWAVE_RETURN_IF_ERROR(
        ops_->copy(exec_, to + begin, from + begin, (end - begin) * sizeof(float)));
  }
  return absl::OkStatus();
}

absl::Status SyncPipeline::BeginFragment(uint32_t round, uint32_t fragment, double learning_rate,
                                         std::span<const uint32_t> order) {
  LONGWAVE_CHECK(fragment < fragment_count());
  for (uint32_t s = 0; s < segments_.size(); ++s) {
    // Encodings begun in an abandoned round return to the residual.
    if (segments_[s].begun) LONGWAVE_RETURN_IF_ERROR(Drop(s));
  }
  round_ = round;
  fragment_ = fragment;
  learning_rate_ = learning_rate;
  to_begin_.clear();
  const auto begins = [this](uint32_t segment) {
    if (owned_.Contains(segment)) to_begin_.push_back(segment);
  };
  for (uint32_t s = fragment; s < segments_.size(); s += fragment_count()) {
    segments_[s].taken = segments_[s].applied = false;
    if (order.empty()) begins(s);
  }
  std::ranges::for_each(order, begins);
  if (!KeepsBase()) return absl::OkStatus();
  return Copy(elements_[fragment], base_.get(), replica_.theta);
}

absl::Status SyncPipeline::Drop(uint32_t index) {
  LONGWAVE_RETURN_IF_ERROR(Finish(index));
  const bool encoded = segments_[index].report.nonfinite_tile == EncodeReport::kNone;
  return encoded ? GiveBack(index) : absl::OkStatus();
}

absl::Status SyncPipeline::BeginNext() {
  std::vector<uint32_t> indices;
  uint32_t tiles = 0;
  while (!to_begin_.empty() && indices.size() < kBatchSegments &&
         (indices.empty() || tiles + PlaceOf(to_begin_.front()).tile_count <= kBatchTiles)) {
    const uint32_t index = to_begin_.front();
    to_begin_.pop_front();
    if (segments_[index].begun || segments_[index].taken) continue;
    tiles += PlaceOf(index).tile_count;
    indices.push_back(index);
  }
  return Begin(indices);
}

absl::Status SyncPipeline::Begin(std::span<const uint32_t> indices) {
  if (indices.empty()) return absl::OkStatus();
  // A batch has the segments of the round before again, and then its memory has no other payload.
  std::shared_ptr<HostBytes> memory = segments_[indices.front()].memory;
  size_t bytes = 0;
  for (const uint32_t index : indices) {
    segments_[index].memory = nullptr;
    bytes = AlignedForPayload(bytes + segments_[index].up.bytes());
  }
  if (memory.use_count() == 1 && memory->bytes().size() >= bytes) {
    // use_count() is a relaxed read; the fence orders it after the socket thread's reads.
    std::atomic_thread_fence(std::memory_order_acquire);
  } else {
    LONGWAVE_ASSIGN_OR_RETURN(memory, HostBytes::Create(ops_, bytes));
  }
  std::vector<EncodeArgs> all;
  all.reserve(indices.size());
  size_t begin = 0;
  for (const uint32_t index : indices) {
    SegmentSync& segment = segments_[index];
    segment.memory = memory;
    segment.payload = memory->bytes().subspan(begin, segment.up.bytes());
    segment.round = round_;
    segment.report = {.nonfinite_tile = 0};  // unfinished: cannot be sent
    begin = AlignedForPayload(begin + segment.up.bytes());
    all.push_back({.layout = layout_,
                   .segment = index,
                   .signal = MakeSignal(),
                   .transform = options_.transform,
                   .beta = Decay(segment),
                   .alpha = options_.alpha,
                   .run_seed = options_.run_seed,
                   .round = round_,
                   .momentum = momentum_.get(),
                   .payload_layout = &segment.up,
                   .payload = segment.payload,
                   .report = &segment.report});
  }
  LONGWAVE_RETURN_IF_ERROR(ops_->encode(exec_, all));
  for (const uint32_t index : indices) segments_[index].begun = true;
  begun_ += static_cast<uint32_t>(indices.size());
  return absl::OkStatus();
}

absl::StatusOr<SyncPipeline::Push> SyncPipeline::Encode(uint32_t index) {
  LONGWAVE_CHECK(index % fragment_count() == fragment_);
  SegmentSync& segment = segments_[index];
  if (owned_.Contains(index)) LONGWAVE_RETURN_IF_ERROR(FinishEncoding(index));
  segment.taken = true;
  segment.given_back = false;
  const double norm = std::sqrt(segment.report.sent_square_sum);
  if (norm > double{std::numeric_limits<float>::max()}) {
    return DataLoss("round ", round_, ", segment ", index, ": the signal's norm is ", norm,
                    ", wanted at most that of the largest fp32");
  }
  segment.accounted_before = std::exchange(segment.accounted, round_ + 1);
  Push push{.payload = {}, .norm = static_cast<float>(norm), .accounted = segment.accounted_before};
  if (owned_.Contains(index)) push.payload = Buffer(segment.payload, segment.memory);
  return push;
}

absl::Status SyncPipeline::FinishEncoding(uint32_t index) {
  SegmentSync& segment = segments_[index];
  // In the host's memory an encoding is complete when it has begun, and its payload leaves at once.
  while (ops_->on_device && !segment.begun && !to_begin_.empty()) {
    LONGWAVE_RETURN_IF_ERROR(BeginNext());
  }
  if (!segment.begun) LONGWAVE_RETURN_IF_ERROR(Begin({&index, 1}));
  // The next encodings begin before the wait for this one, so that they are computed while it is
  // copied and sent.
  if (ops_->on_device && begun_ <= kBatchSegments && !to_begin_.empty()) {
    LONGWAVE_RETURN_IF_ERROR(BeginNext());
  }
  LONGWAVE_RETURN_IF_ERROR(Finish(index));
  if (segment.report.nonfinite_tile == EncodeReport::kNone) return absl::OkStatus();
  return DataLoss("round ", round_, ", segment ", index, ", tile ", segment.report.nonfinite_tile,
                  ": the signal has a NaN or an infinity, wanted finite numbers");
}

absl::Status SyncPipeline::GiveBack(uint32_t index) {
  SegmentSync& segment = segments_[index];
  if (owned_.Contains(index)) return GiveBack(index, segment.round, segment.up, segment.payload);
  segment.given_back = true;
  return absl::OkStatus();
}

absl::Status SyncPipeline::GiveBack(uint32_t index, uint32_t of_round, const PayloadLayout& form,
                                    std::span<const std::byte> payload) {
  const RestoreArgs args = {.layout = layout_,
                            .segment = index,
                            .alpha = options_.alpha,
                            .run_seed = options_.run_seed,
                            .round = of_round,
                            .momentum = momentum_.get(),
                            .payload_layout = &form,
                            .payload = payload};
  LONGWAVE_RETURN_IF_ERROR(ops_->restore(exec_, args));
  segments_[index].given_back = true;
  return absl::OkStatus();
}

absl::Status SyncPipeline::Restore(uint32_t index) {
  SegmentSync& segment = segments_[index];
  if (!segment.taken) return absl::OkStatus();
  segment.taken = false;
  segment.GiveBackAccounted(round_);
  return GiveBack(index);
}

absl::Status SyncPipeline::Apply(std::span<const Merged> updates) {
  std::vector<Merged> due;
  for (const Merged& update : updates) {
    LONGWAVE_CHECK(update.segment % fragment_count() == fragment_);
    const SegmentSync& segment = segments_[update.segment];
    if (segment.applied) continue;
    // A snapshot may have led beyond the round, whose update must not be applied twice.
    if (segment.anchor_round != round_) {
      return FailedPrecondition("segment ", update.segment, ": got the merged update of round ",
                                round_, ", wanted that of round ", segment.anchor_round,
                                ", where its anchor stands");
    }
    due.push_back(update);
  }
  LONGWAVE_RETURN_IF_ERROR(Update(due, round_, learning_rate_));
  for (const Merged& update : due) segments_[update.segment].applied = true;
  return absl::OkStatus();
}

absl::Status SyncPipeline::Update(std::span<const Merged> updates, uint32_t at_round,
                                  double at_learning_rate) {
  const float eta = Eta(at_learning_rate);
  std::vector<DecodeUpdateArgs> all;
  all.reserve(updates.size());
  for (const auto& [index, payload, is_valid] : updates) {
    if (!owned_.Contains(index)) continue;
    std::optional<PayloadLayout>& merged = segments_[index].merged;
    LONGWAVE_RETURN_IF_ERROR(TakeForm(*layout_, index, payload.bytes(), merged));
    if (!is_valid) LONGWAVE_RETURN_IF_ERROR(ValidatePayload(*merged, payload.bytes()));
    all.push_back({.layout = layout_,
                   .segment = index,
                   .transform = options_.transform,
                   .update = options_.update,
                   .eta = eta,
                   .mu = options_.mu,
                   .keep = 1.0f - eta * options_.weight_decay,
                   .run_seed = options_.run_seed,
                   .round = at_round,
                   .payload_layout = &*merged,
                   .payload = payload.bytes(),
                   .theta = Anchor(),
                   .velocity = velocity_.get(),
                   .gradient = replica_.gradient,
                   .signal = MakeSignal(),
                   .beta = options_.beta,
                   .momentum = momentum_.get()});
  }
  LONGWAVE_RETURN_IF_ERROR(ops_->decode_update(exec_, all));
  for (const Merged& update : updates) segments_[update.segment].anchor_round = at_round + 1;
  return absl::OkStatus();
}

absl::Status SyncPipeline::Blend() {
  for (const auto& [begin, end] : elements_[fragment_]) {
    const BlendArgs args = {.begin = begin,
                            .end = end,
                            .theta = replica_.theta,
                            .anchor = Anchor(),
                            .base = base_.get(),
                            .alpha = KeepsBase() ? options_.blend : 0};
    LONGWAVE_RETURN_IF_ERROR(ops_->blend(exec_, args));
  }
  return absl::OkStatus();
}

absl::Status SyncPipeline::EndFragment() {
  for (uint32_t s = owned_.begin; s < owned_.end; ++s) {
    if (s % fragment_count() == fragment_ && !segments_[s].applied) {
      return FailedPrecondition("round ", round_, " ends without the merged update of segment ", s);
    }
  }
  if (!InPlace()) LONGWAVE_RETURN_IF_ERROR(Blend());
  return ops_->wait(exec_);
}

absl::Status SyncPipeline::SwapAnchor() {
  if (!InParts()) return absl::OkStatus();
  if (swap_.get() == nullptr) {
    LONGWAVE_ASSIGN_OR_RETURN(
        swap_, DeviceFloats::Create(ops_, std::min(layout_->parameter_count(), kSwapElements)));
  }
  const auto copy = [&](float* to, const float* from, uint64_t count) {
    return ops_->copy(exec_, to, from, count * sizeof(float));
  };
  for (const ElementRange& range : owned_elements_) {
    for (uint64_t begin = range.begin; begin < range.end; begin += kSwapElements) {
      const uint64_t count = std::min(kSwapElements, range.end - begin);
      float* const theta = replica_.theta + begin;
      float* const anchor = Anchor() + begin;
      LONGWAVE_RETURN_IF_ERROR(copy(swap_.get(), theta, count));
      LONGWAVE_RETURN_IF_ERROR(copy(theta, anchor, count));
      LONGWAVE_RETURN_IF_ERROR(copy(anchor, swap_.get(), count));
    }
  }
  return ops_->wait(exec_);
}

absl::StatusOr<std::vector<uint64_t>> SyncPipeline::Hashes() {
  const uint32_t segments = owned_.end - owned_.begin;
  if (segments == 0) return std::vector<uint64_t>();
  std::vector<std::vector<uint64_t>> of_arrays;
  for (const float* array : SegmentArrays()) {
    std::vector<uint64_t>& hashes = of_arrays.emplace_back(segments);
    const HashArgs args = {
        .layout = layout_, .segment_begin = owned_.begin, .theta = array, .hashes = hashes};
    LONGWAVE_RETURN_IF_ERROR(ops_->hash(exec_, args));
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

}  // namespace longwave
