#ifndef LONGWAVE_WORKER_SYNC_PIPELINE_H_
#define LONGWAVE_WORKER_SYNC_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/layout/segment_elements.h"
#include "common/wire/buffer.h"
#include "common/wire/codec.h"
#include "common/wire/payload.h"
#include "kernels/device_floats.h"
#include "kernels/host_bytes.h"
#include "kernels/ops.h"

namespace longwave {

// Settings of the one pipeline that covers every method:
//   signal → momentum → select → quantize → residual → (merge, at the shard) → update.
struct SyncOptions {
  // The signal is scale·g at a step's gradient g, or θ_anchor − θ after H inner steps.
  bool pseudo_gradient = true;
  // DeMo multiplies a gradient by the learning rate. An inner optimizer that takes the merged
  // update needs the gradient itself.
  bool scale_by_learning_rate = false;
  Transform transform = Transform::kNone;
  PayloadFormat up;
  float beta = 0;
  float alpha = 1;
  UpdateKind update = UpdateKind::kSgd;
  float eta = 1;
  bool eta_follows_learning_rate = false;  // η is multiplied by the round's learning rate
  float mu = 0;
  float weight_decay = 0;  // decoupled: θ ← (1 − η·wd)·θ before the update
  uint64_t run_seed = 0;   // the seed of random and stride selection, with round and tile
  // Training continues between a signal and its update; `blend` is the share of that progress that
  // is kept.
  bool overlapped = false;
  float blend = 1;
  uint32_t fragments = 1;  // wanted; see FragmentCount
};

// The worker's dense arrays, flat as the layout orders them (see Tile), in the backend's memory.
struct ReplicaView {
  float* theta = nullptr;     // the replica that inner steps train, [parameter_count]
  float* gradient = nullptr;  // [parameter_count]; needed for a gradient signal
};

// Gives `form` the layout of a merged update of the segment, unless it has that already: the format
// may change from round to round. InvalidArgument: not the head of a payload that fits.
absl::Status TakeForm(const Layout& layout, uint32_t segment, std::span<const std::byte> update,
                      std::optional<PayloadLayout>& form);

// A worker's side of a sync, without model, socket, thread or clock. The pipeline turns a replica
// into payloads and merged payloads into the updated replica. One object for each worker, also in
// the simulator. Not thread-safe.
//
// A fragment of a round:  BeginFragment;  Encode of each of its segments, while θ is constant;
// with `overlapped`, inner steps;  Apply of each (once the shard has merged), in any order;
// EndFragment. One fragment is under way at a time. Restore returns a push that was not accepted
// to the residual, before or after Apply.
//
// With base = θᵢ at the signal, the momentum takes s = anchor − base, and EndFragment sets
//   θᵢ ← anchor + blend·(θᵢ − base)
// With blend 1 every inner step's progress is in exactly one signal, unless AdoptAnchor drops it.
// Without an overlap θᵢ − base is zero, θᵢ ← anchor, and no base is kept. The anchors of all
// workers are equal after every fragment, bit for bit. Their replicas are equal only without
// overlap and fragments.
class SyncPipeline {
 public:
  // InvalidArgument: options that do not fit each other or the backend. ResourceExhausted: memory,
  // naming the bytes wanted. `layout` and `ops` outlive the pipeline. The anchor starts as `theta`.
  // owned: this pipeline has memory for these segments alone, and neither reads nor writes the
  // others' part of θ and the gradient. Of the others it keeps the rounds, without payloads, so
  // that the ranks of a node, which own one range each, take the same decisions. Payloads do not
  // depend on it.
  static absl::StatusOr<std::unique_ptr<SyncPipeline>> Create(const SyncOptions& options,
                                                              const Layout* layout,
                                                              const KernelOps* ops, Exec exec,
                                                              ReplicaView replica,
                                                              SegmentRange owned);
  static absl::StatusOr<std::unique_ptr<SyncPipeline>> Create(const SyncOptions& options,
                                                              const Layout* layout,
                                                              const KernelOps* ops, Exec exec,
                                                              ReplicaView replica) {
    return Create(options, layout, ops, exec, replica, AllSegments(*layout));
  }
  // Encodings under way write into the segments' payloads.
  ~SyncPipeline();
  SyncPipeline(const SyncPipeline&) = delete;
  SyncPipeline& operator=(const SyncPipeline&) = delete;

  const SyncOptions& options() const { return options_; }

  // A fragment's segments are fragment, fragment + fragment_count(), and so on.
  uint32_t fragment_count() const { return static_cast<uint32_t>(elements_.size()); }

  // learning_rate: the inner schedule's at this signal. Encodings begun earlier and not taken
  // return to the residual. `order`: the segments that Encode will be called for, best in this
  // order, since a device begins many of them at once; without it, the fragment's in ascending
  // order.
  absl::Status BeginFragment(uint32_t round, uint32_t fragment, double learning_rate,
                             std::span<const uint32_t> order = {});

  struct Push {
    Buffer payload;
    float norm = 0;  // L2 norm of the payload, dequantized
    // Rounds, from the first, in which this worker's contributions to the segment are not in the
    // residual behind this push. 0: none of its contributions is, since the residual began with
    // zeros. A shard that knows a later contribution takes the push for a copy's.
    uint32_t accounted = 0;
  };
  // A device encodes the next segments while this payload is sent.
  // DataLoss: the signal or the momentum is not finite; names the tile. Then no push of the segment
  // may be sent, and the momentum of its other tiles has taken the signal in.
  absl::StatusOr<Push> Encode(uint32_t segment);

  // Returns the contribution of the segment's last Encode to the residual, once: the push was late
  // or rejected. The payload must be unchanged. The next Encode multiplies the contribution by β
  // like all of the residual. With β = 0, which otherwise keeps no residual, that Encode takes the
  // contribution whole.
  absl::Status Restore(uint32_t segment);

  struct Merged {
    uint32_t segment = 0;
    Buffer payload;
    bool is_valid = false;  // ValidatePayload has passed on another thread
  };
  // Applies segments' merged updates to the anchor, each segment once. FailedPrecondition: the
  // anchor is at a round other than the fragment's. InvalidArgument: a payload that does not fit.
  // After an error none is applied.
  absl::Status Apply(std::span<const Merged> updates);
  absl::Status Apply(uint32_t segment, const Buffer& merged) {
    const Merged one{.segment = segment, .payload = merged};
    return Apply({&one, 1});
  }

  // Updates θ from the fragment's part of the anchor. FailedPrecondition: a segment is missing.
  absl::Status EndFragment();

  bool owns(uint32_t segment) const { return owned_.Contains(segment); }

  // The first round whose update is not in the segment's anchor.
  uint32_t anchor_round(uint32_t segment) const { return segments_[segment].anchor_round; }

  // Applies the update of round anchor_round(segment) to the segment's anchor alone, outside the
  // order of fragments, without θ or the momentum. (Under a gradient signal θ is the anchor.)
  // learning_rate: the one at the round's signal. FailedPrecondition: another round, or update
  // inner or local. InvalidArgument: a payload that does not fit.
  absl::Status CatchUp(uint32_t segment, uint32_t round, double learning_rate,
                       const Buffer& merged);

  // θ ← anchor, everywhere, and ends a fragment under way: encodings not taken return to the
  // residual. The progress of inner steps since a fragment's last signal is lost.
  absl::Status AdoptAnchor();
  // θ ← anchor in the elements of these segments, between two fragments; only theirs is lost.
  absl::Status AdoptAnchor(std::span<const uint32_t> segments);

  // The state of a segment's anchor between two of its rounds, in host memory: the parameters and,
  // under kNesterov, their velocity, each by ascending flat index (SegmentElements).
  absl::StatusOr<std::vector<std::vector<float>>> ExportSegment(uint32_t segment);
  // Sets that state. `round` is the first round not in it. InvalidArgument: the number of arrays or
  // elements. FailedPrecondition: update inner or local.
  absl::Status LoadSegment(uint32_t segment, uint32_t round,
                           std::span<const std::vector<float>> arrays);
  // The number of arrays that ExportSegment returns, and of elements in each.
  uint32_t segment_arrays() const { return static_cast<uint32_t>(SegmentArrays().size()); }
  uint64_t segment_elements(uint32_t segment) const {
    return ElementCount(SegmentElements(*layout_, segment));
  }

  // The residual momentum in the transform's domain, the owned segments' coefficients, in host
  // memory. Zeros where the next Encode drops the residual (β = 0), except in `unsettled` segments,
  // whose last encoding may be returned. memory: an earlier export, which this one overwrites.
  // FailedPrecondition: a fragment is half encoded.
  absl::StatusOr<std::vector<float>> ExportMomentum(std::span<const uint32_t> unsettled = {},
                                                    std::vector<float> memory = {});
  // Loads an earlier process's export. `unsettled`: segments whose last contribution by that
  // process has an unknown fate; with β = 0 the next Encode of all others takes the loaded values
  // along. accounted: that process's, by segment, before it encoded those of `round`.
  // Entries of segments that are not owned have no effect. InvalidArgument: the number of
  // coefficients, or one that is not finite.
  absl::Status LoadMomentum(std::span<const float> momentum,
                            std::span<const uint32_t> unsettled = {},
                            std::span<const uint32_t> accounted = {}, uint32_t round = 0);
  // The next Encode's Push::accounted, by segment.
  std::vector<uint32_t> Accounted() const;
  // Returns an earlier process's contribution to the residual, as Restore does. `payload`: from
  // that process's Encode of the segment and round, in any format, which its head names.
  // InvalidArgument: a payload that does not fit the segment.
  absl::Status RestoreFrom(uint32_t segment, uint32_t round, const Buffer& payload);
  // Zeroes the segment's residual, which may already be in a merge.
  absl::Status DropResidual(uint32_t segment);

  // Exchanges θ and the anchor between two fragments, so that an evaluation sees the state that all
  // replicas share. Called before an evaluation and again after it. No effect where θ is the
  // anchor.
  absl::Status SwapAnchor();

  // StateHash of each owned segment's shared parameters and their velocity.
  absl::StatusOr<std::vector<uint64_t>> Hashes();

  // The start with all merged updates, and the residual momentum in the transform's domain, flat in
  // the backend's memory. Only the elements that this process owns are there.
  const float* anchor() const { return Anchor(); }
  const float* momentum() const { return momentum_.get(); }
  const EncodeReport& report(uint32_t segment) const { return segments_[segment].report; }

 private:
  struct SegmentSync {
    PayloadLayout up;
    std::optional<PayloadLayout> merged;  // of the last merged update
    // A part of `memory`, which the encodings that were begun with it share. Reused each round once
    // the socket has released it.
    std::span<std::byte> payload;
    std::shared_ptr<HostBytes> memory;
    EncodeReport report;
    uint32_t round = 0;             // of the payload
    bool begun = false;             // encoding has begun, and the result is not read yet
    bool taken = false;             // the residual has lost what the payload holds
    bool given_back = false;        // the residual has all of it again; see Decay
    bool applied = false;           // the round's merged update is in the anchor
    uint32_t anchor_round = 0;      // first round not in the anchor
    uint32_t accounted = 0;         // see Push
    uint32_t accounted_before = 0;  // by the last Encode or RestoreFrom

    // The round's contribution is in the residual again; earlier rounds are unchanged. A residual
    // that began with zeros (0) has no contribution up to this round. The residual may be copied
    // from now on, so 0 is no longer true of it.
    void GiveBackAccounted(uint32_t at_round) {
      accounted = accounted_before != 0 ? accounted_before : at_round + 1;
    }
  };

  SyncPipeline(const SyncOptions& options, const Layout* layout, const KernelOps* ops, Exec exec,
               ReplicaView replica, SegmentRange owned);
  absl::Status Allocate();

  float* Anchor() const { return options_.pseudo_gradient ? anchor_.get() : replica_.theta; }

  const Segment& PlaceOf(uint32_t segment) const { return layout_->segments()[segment]; }
  // The owned coefficients, a contiguous part of the momentum.
  uint64_t CoefficientBegin() const {
    return owned_.begin == owned_.end ? 0 : PlaceOf(owned_.begin).coefficient_begin;
  }
  uint64_t CoefficientEnd() const {
    if (owned_.begin == owned_.end) return 0;
    const Segment& last = PlaceOf(owned_.end - 1);
    return last.coefficient_begin + last.coefficient_count;
  }
  bool InPlace() const { return !options_.pseudo_gradient; }
  bool InParts() const { return options_.overlapped || fragment_count() > 1; }
  bool KeepsBase() const { return options_.overlapped && options_.blend > 0; }
  Signal MakeSignal() const {
    if (options_.pseudo_gradient) return {.a = Anchor(), .b = replica_.theta};
    const float scale = options_.scale_by_learning_rate ? static_cast<float>(learning_rate_) : 1.0f;
    return {.a = replica_.gradient, .scale = scale};
  }

  // Waits for the segment's encoding, which is under way.
  absl::Status Finish(uint32_t index) {
    segments_[index].begun = false;
    --begun_;
    return ops_->finish(exec_, index);
  }

  // The factor of m in the segment's next encoding. β = 0 drops the rest of the last signal, but a
  // returned contribution must survive: it is kept whole once, as if the two rounds were one. Under
  // any other β it decays like every unsent part.
  float Decay(const SegmentSync& segment) const {
    return options_.beta == 0 && segment.given_back ? 1.0f : options_.beta;
  }
  // Enqueues the segments' encodings, by one launch on a device.
  absl::Status Begin(std::span<const uint32_t> indices);
  // Begins the encodings that come next in the order of the fragment, as many as a launch takes
  // well.
  absl::Status BeginNext();
  // Waits for the segment's encoding, which begins here if it has not. Errors as Encode.
  absl::Status FinishEncoding(uint32_t index);
  // Reverts an encoding that was begun and will not be sent.
  absl::Status Drop(uint32_t index);
  // Returns the contribution of the segment's last encoding to the residual.
  absl::Status GiveBack(uint32_t index);
  // Copies elements of a flat array.
  absl::Status Copy(std::span<const ElementRange> ranges, float* to, const float* from) const;
  // θ ← anchor + blend·(θ − base) over the fragment's elements.
  absl::Status Blend();

  // Applies the updates of round at_round to the segments' anchors.
  absl::Status Update(std::span<const Merged> updates, uint32_t at_round, double at_learning_rate);
  // Returns the contribution in `payload`, of layout `form` and round of_round, to the residual.
  absl::Status GiveBack(uint32_t index, uint32_t of_round, const PayloadLayout& form,
                        std::span<const std::byte> payload);
  // FailedPrecondition: the anchor is more than a function of the updates.
  absl::Status CheckCatchesUp() const;
  // The arrays that a segment's anchor is part of, each [parameter_count].
  std::vector<float*> SegmentArrays() const;

  float Eta(double at_learning_rate) const {
    return options_.eta_follows_learning_rate ? static_cast<float>(options_.eta * at_learning_rate)
                                              : options_.eta;
  }

  const SyncOptions options_;
  const Layout* const layout_;
  const KernelOps* const ops_;
  Exec exec_;  // with the owner of its encodings, which pipelines on one stream do not share
  const ReplicaView replica_;
  const SegmentRange owned_;  // all arrays below have these segments' parts alone
  DeviceFloats anchor_;       // for a pseudo-gradient; a gradient's anchor is the replica itself
  DeviceFloats base_;         // θᵢ at the last signals, for an overlap with blend
  DeviceFloats swap_;         // from the first SwapAnchor on
  DeviceFloats momentum_;
  DeviceFloats velocity_;
  std::vector<SegmentSync> segments_;
  std::deque<uint32_t> to_begin_;                    // owned, of the fragment
  uint32_t begun_ = 0;                               // encodings under way
  std::vector<std::vector<ElementRange>> elements_;  // of each fragment, owned
  std::vector<ElementRange> owned_elements_;         // of all fragments
  uint32_t round_ = 0;
  uint32_t fragment_ = 0;
  double learning_rate_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_PIPELINE_H_
