#ifndef LONGWAVE_WORKER_SYNC_PIPELINE_STATE_H_
#define LONGWAVE_WORKER_SYNC_PIPELINE_STATE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/layout/layout.h"
#include "common/layout/segment_elements.h"
#include "common/wire/buffer.h"
#include "common/wire/payload.h"
#include "kernels/device_floats.h"
#include "kernels/ops.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// Private to SyncPipeline: shared by pipeline.cc (rounds) and pipeline_catch_up.cc (all else).
struct SyncPipeline::State {
  struct Segment {
    PayloadLayout up;
    // Layout of the last merged update, whose format may change from round to round.
    std::optional<PayloadLayout> merged;
    // Reused each round once the socket has released it.
    std::shared_ptr<std::vector<std::byte>> payload;
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

  // Encodings under way write into the segments' payloads.
  ~State() {
    for (uint32_t slot = 0; slot < kEncodeSlots; ++slot) static_cast<void>(Finish(slot));
  }

  SyncOptions options;
  const Layout* layout;
  const KernelOps* ops;
  Exec exec;
  ReplicaView replica;
  SegmentRange owned;          // all arrays below have these segments' parts alone
  DeviceFloats anchor_memory;  // for a pseudo-gradient; a gradient's anchor is the replica itself
  DeviceFloats base;           // θᵢ at the last signals, for an overlap with blend
  DeviceFloats swap;           // from the first SwapAnchor on
  DeviceFloats momentum;
  DeviceFloats velocity;
  std::vector<Segment> segments;
  std::array<bool, kEncodeSlots> under_way = {};    // slots with an encoding under way
  std::vector<std::vector<ElementRange>> elements;  // of each fragment, owned
  std::vector<ElementRange> owned_elements;         // of all fragments
  uint32_t round = 0;
  uint32_t fragment = 0;
  double learning_rate = 0;

  float* anchor() const { return options.pseudo_gradient ? anchor_memory.get() : replica.theta; }

  uint32_t fragment_count() const { return static_cast<uint32_t>(elements.size()); }
  const longwave::Segment& PlaceOf(uint32_t segment) const { return layout->segments()[segment]; }
  // The owned coefficients, a contiguous part of the momentum.
  uint64_t CoefficientBegin() const {
    return owned.begin == owned.end ? 0 : PlaceOf(owned.begin).coefficient_begin;
  }
  uint64_t CoefficientEnd() const {
    if (owned.begin == owned.end) return 0;
    const longwave::Segment& last = PlaceOf(owned.end - 1);
    return last.coefficient_begin + last.coefficient_count;
  }
  bool InPlace() const { return !options.pseudo_gradient; }
  bool InParts() const { return options.overlapped || fragment_count() > 1; }
  bool KeepsBase() const { return options.overlapped && options.blend > 0; }
  // Neighbours in a fragment use different slots.
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

  // The factor of m in the segment's next encoding. β = 0 drops the rest of the last signal, but a
  // returned contribution must survive: it is kept whole once, as if the two rounds were one. Under
  // any other β it decays like every unsent part.
  float Decay(const Segment& segment) const {
    return options.beta == 0 && segment.given_back ? 1.0f : options.beta;
  }
  // Enqueues the segment's encoding.
  absl::Status Begin(uint32_t index);
  // Waits for the segment's encoding, which begins here if it has not. Errors as Encode.
  absl::Status FinishEncoding(uint32_t index);
  // Reverts an encoding that was begun and will not be sent.
  absl::Status Drop(uint32_t index);
  // Returns the contribution of the segment's last encoding to the residual.
  absl::Status Restore(uint32_t index);
  // Copies elements of a flat array.
  absl::Status Copy(std::span<const ElementRange> ranges, float* to, const float* from) const;
  // θ ← anchor + blend·(θ − base) over the fragment's elements.
  absl::Status Blend();

  // Applies the update of round at_round to the segment's anchor.
  absl::Status Update(uint32_t index, uint32_t at_round, double at_learning_rate,
                      const Buffer& update);
  // Returns the contribution in `payload`, of layout `form` and round of_round, to the residual.
  absl::Status Restore(uint32_t index, uint32_t of_round, const PayloadLayout& form,
                       std::span<const std::byte> payload);
  // FailedPrecondition: the anchor is more than a function of the updates.
  absl::Status CheckCatchesUp() const;
  // The arrays that a segment's anchor is part of, each [parameter_count].
  std::vector<float*> SegmentArrays() const;

  float Eta(double at_learning_rate) const {
    return options.eta_follows_learning_rate ? static_cast<float>(options.eta * at_learning_rate)
                                             : options.eta;
  }
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_PIPELINE_STATE_H_
