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

// Private to SyncPipeline: what pipeline.cc (rounds) and pipeline_catch_up.cc (everything out of
// turn) share.
struct SyncPipeline::State {
  struct Segment {
    PayloadLayout up;
    // Of its last merged update, whose format may change from round to round.
    std::optional<PayloadLayout> merged;
    // Reused from round to round once the socket has let go of it.
    std::shared_ptr<std::vector<std::byte>> payload;
    EncodeReport report;
    uint32_t round = 0;             // of the payload
    bool begun = false;             // its encoding was, and how that went is not told yet
    bool taken = false;             // the residual has lost what the payload holds
    bool given_back = false;        // the residual has it again, or more: see Decay
    bool applied = false;           // this round's merged update is in the anchor
    uint32_t anchor_round = 0;      // first round that the anchor has not
    uint32_t accounted = 0;         // see Push
    uint32_t accounted_before = 0;  // the last Encode, or RestoreFrom

    // The round's contribution is in the residual again, which says nothing of the rounds before. A
    // residual that had begun with nothing has nothing of what was contributed up to this round,
    // and may not claim any more that it has nothing at all: it may be copied from now on.
    void GiveBackAccounted(uint32_t at_round) {
      accounted = accounted_before != 0 ? accounted_before : at_round + 1;
    }
  };

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
  std::vector<Segment> segments;
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

  // What the segment's next encoding makes of m. With β = 0 it forgets what was left of the signal
  // before, which a contribution that was given back must survive: then it is kept once, whole, as
  // if the two rounds were one. With any other β it decays as whatever was not sent does.
  float Decay(const Segment& segment) const {
    return options.beta == 0 && segment.given_back ? 1.0f : options.beta;
  }
  // Enqueues the segment's encoding.
  absl::Status Begin(uint32_t index);
  // Takes back one that was begun and will not be sent.
  absl::Status Drop(uint32_t index);
  // What its last encoding took.
  absl::Status Restore(uint32_t index);
  // θ ← anchor + blend·(θ − base) over the fragment's elements.
  absl::Status Blend();

  // Applies the update of that round to the segment's anchor.
  absl::Status Update(uint32_t index, uint32_t at_round, double at_learning_rate,
                      const Buffer& update);
  // Puts back what `payload`, of that form, took from the residual in that round.
  absl::Status Restore(uint32_t index, uint32_t of_round, const PayloadLayout& form,
                       std::span<const std::byte> payload);
  // FailedPrecondition where an anchor is more than a function of the updates.
  absl::Status CheckCatchesUp() const;
  // What the state of a segment's anchor is part of, each [parameter_count].
  std::vector<float*> SegmentArrays() const;

  float Eta(double at_learning_rate) const {
    return options.eta_follows_learning_rate ? static_cast<float>(options.eta * at_learning_rate)
                                             : options.eta;
  }
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_PIPELINE_STATE_H_
