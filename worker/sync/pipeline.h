#ifndef LONGWAVE_WORKER_SYNC_PIPELINE_H_
#define LONGWAVE_WORKER_SYNC_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/codec.h"
#include "kernels/ops.h"

namespace longwave {

// The knobs of the one pipeline that every method is a setting of:
//   signal → momentum → select → quantize → residual → (merge, at the shard) → update.
struct SyncOptions {
  // The signal is scale·g at a step's gradient g, or θ_anchor − θ after H inner steps.
  bool pseudo_gradient = true;
  // A gradient is taken times the learning rate, as DeMo has it, unless an inner optimizer takes
  // the merged one: that wants the gradient itself.
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
  uint64_t run_seed = 0;   // with round and tile, what random and stride selection draw from
  // Training goes on between a signal and its update; `blend` is the share that is kept of what it
  // brings.
  bool overlapped = false;
  float blend = 1;
  uint32_t fragments = 1;  // wanted; see FragmentCount
};

// The worker's dense arrays, flat as the layout orders them (see Tile), in the backend's memory.
struct ReplicaView {
  float* theta = nullptr;     // the replica that inner steps train, [parameter_count]
  float* gradient = nullptr;  // [parameter_count]; needed for a gradient signal
};

// A worker's side of a sync, without model, socket, thread or clock: it turns a replica into
// payloads and merged payloads into the updated replica. One object for one worker, and the same
// object in the simulator. Not thread-safe.
//
// A fragment of a round:  BeginFragment;  Encode of each of its segments, while θ stands still;
// with `overlapped`, inner steps;  Apply of each (once the shard has merged), in any order;
// EndFragment. One fragment is under way at a time. A push that was not accepted is given back to
// the residual by Restore, before or after Apply.
//
// With base = θᵢ at the signal, s = anchor − base is what goes into the momentum, and the end sets
//   θᵢ ← anchor + blend·(θᵢ − base)
// so that with blend 1 every inner step's progress is in exactly one signal, unless AdoptAnchor
// gives up what was to come. Without an overlap
// θᵢ − base is nothing: θᵢ ← anchor, and no base is kept. The anchors of all workers are equal, bit
// for bit, after every fragment; their replicas only without overlap and fragments.
class SyncPipeline {
 public:
  // InvalidArgument: options that do not fit each other or the backend. ResourceExhausted: memory
  // (bytes wanted are named). `layout` and `ops` outlive the pipeline. The anchor starts as
  // `theta`.
  static absl::StatusOr<std::unique_ptr<SyncPipeline>> Create(const SyncOptions& options,
                                                              const Layout* layout,
                                                              const KernelOps* ops, Exec exec,
                                                              ReplicaView replica);
  ~SyncPipeline();
  SyncPipeline(const SyncPipeline&) = delete;
  SyncPipeline& operator=(const SyncPipeline&) = delete;

  // The segments of a fragment are fragment, fragment + fragment_count(), and so on.
  uint32_t fragment_count() const;

  // learning_rate: of the inner schedule at this signal. What was begun before and not encoded goes
  // back into the residual.
  absl::Status BeginFragment(uint32_t round, uint32_t fragment, double learning_rate);

  struct Push {
    Buffer payload;
    float norm = 0;  // L2 norm of what is sent, as dequantized
    // Rounds, from the first: what this worker contributed to the segment in them is not in the
    // residual that this was taken from. 0: what it ever contributed is not, since the residual
    // began with nothing. A shard that knows of a later contribution takes it for a copy's.
    uint32_t accounted = 0;
  };
  // Segments are best taken in order: on a device the next one is encoded while this one's payload
  // is sent. DataLoss: the signal or the momentum is not finite; says which tile. Nothing of the
  // segment may be sent then, and the momentum of its other tiles has taken the signal in.
  absl::StatusOr<Push> Encode(uint32_t segment);

  // Puts what the segment's last Encode took from the residual back, once: the push was late or
  // rejected. The payload must be as Encode gave it. The next Encode takes it along: times β, as
  // all of the residual; with β = 0, which keeps nothing of a residual otherwise, whole this once.
  absl::Status Restore(uint32_t segment);

  // Applies a segment's merged update to the anchor. FailedPrecondition: the anchor stands at
  // another round than the fragment's. InvalidArgument: a payload that does not fit.
  absl::Status Apply(uint32_t segment, const Buffer& merged);

  // Takes the fragment's part of the anchor into θ. FailedPrecondition: a segment is missing.
  absl::Status EndFragment();

  // The first round whose update is not in the segment's anchor.
  uint32_t anchor_round(uint32_t segment) const;

  // Applies the update of round anchor_round(segment) to the segment's anchor alone, out of the
  // turn of fragments: neither θ nor the momentum. (Under a gradient signal θ is the anchor.)
  // learning_rate: that of the round's signal. FailedPrecondition: another round, or update inner
  // or local. InvalidArgument: a payload that does not fit.
  absl::Status CatchUp(uint32_t segment, uint32_t round, double learning_rate,
                       const Buffer& merged);

  // θ ← anchor, everywhere, and ends the fragment that is under way, if one is: encodings that were
  // not taken go back into the residual. What inner steps have brought since a fragment's last
  // signal is in no signal then: it is lost.
  absl::Status AdoptAnchor();
  // θ ← anchor in the elements of these segments, between two fragments: theirs alone is lost.
  absl::Status AdoptAnchor(std::span<const uint32_t> segments);

  // The state of a segment's anchor between two of its rounds, in host memory: its parameters, and
  // under kNesterov their velocity, each by ascending flat index (SegmentElements).
  absl::StatusOr<std::vector<std::vector<float>>> ExportSegment(uint32_t segment);
  // Sets it: `round` is the first that is not in it. InvalidArgument: the number of arrays or of
  // their elements. FailedPrecondition: update inner or local.
  absl::Status LoadSegment(uint32_t segment, uint32_t round,
                           std::span<const std::vector<float>> arrays);
  // Arrays that ExportSegment gives, and elements of each.
  uint32_t segment_arrays() const;
  uint64_t segment_elements(uint32_t segment) const;

  // The whole residual momentum in the transform's domain, [coefficient_count], in host memory.
  // Zeros where the next Encode forgets it (β = 0), but for the `unsettled` segments: what was
  // encoded of them last may be given back. FailedPrecondition: a fragment is half encoded.
  absl::StatusOr<std::vector<float>> ExportMomentum(std::span<const uint32_t> unsettled = {});
  // Sets it to what an earlier process exported. `unsettled`: segments of which that process had
  // encoded a contribution, and nobody knows what became of it; with β = 0 the next Encode of all
  // others takes along what is loaded. accounted: as that process's were, by segment, before it
  // encoded those of `round`. InvalidArgument: the number of coefficients, one that is not finite.
  absl::Status LoadMomentum(std::span<const float> momentum,
                            std::span<const uint32_t> unsettled = {},
                            std::span<const uint32_t> accounted = {}, uint32_t round = 0);
  // By segment, of the next Encode.
  std::vector<uint32_t> Accounted() const;
  // Puts what an earlier process took from the residual back, as Restore does: `payload` is one
  // that its Encode gave for the segment and round, in whatever format its options had: the head
  // says which. InvalidArgument: a payload that does not fit the segment.
  absl::Status RestoreFrom(uint32_t segment, uint32_t round, const Buffer& payload);
  // Makes nothing of the segment's residual: what is in it may be in a merge.
  absl::Status DropResidual(uint32_t segment);

  // Exchanges θ and the anchor between two fragments, so that a model sees what all replicas share:
  // before an evaluation, and again after it. Nothing where θ is the anchor anyway.
  absl::Status SwapAnchor();

  // Of each segment: StateHash of the parameters that all replicas share, and of their velocity.
  absl::StatusOr<std::vector<uint64_t>> Hashes();

  // What the servers' merges have made of the start, in the backend's memory.
  const float* anchor() const;
  // The residual momentum in the transform's domain, [coefficient_count].
  const float* momentum() const;
  const EncodeReport& report(uint32_t segment) const;

 private:
  struct State;
  explicit SyncPipeline(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_PIPELINE_H_
