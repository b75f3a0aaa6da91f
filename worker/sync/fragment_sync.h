#ifndef LONGWAVE_WORKER_SYNC_FRAGMENT_SYNC_H_
#define LONGWAVE_WORKER_SYNC_FRAGMENT_SYNC_H_

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/sync/exchange.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// Where the time of a worker's syncs goes.
struct SyncSeconds {
  double encoding = 0;
  double sending = 0;  // handing contributions to the exchange
  double waiting = 0;  // for merged updates
  double decoding = 0;
};

// Sees what goes through a worker's syncs, on the thread that calls them.
class SyncObserver {
 public:
  virtual ~SyncObserver() = default;
  // A contribution, before it is posted.
  virtual void OnPush(const SegmentPush& push, const EncodeReport& report) = 0;
  // What became of it, after its update was applied, or found to be gone.
  virtual void OnApplied(const Settled& settled) = 0;
};

// The caller's side of a sync: Send and, now or some inner steps later, Apply. Between the two, and
// while it encodes and decodes, the exchange sends and receives.
//
// A worker that was away for too long finds that the update it waits for is kept by nobody: then
// Apply leaves the fragment open and missing() names its segments. They are fetched from round()
// on, SyncPipeline::CatchUp takes them to the present, and AdoptAnchor ends what is open.
class FragmentSync {
 public:
  // Sees the contributions of a fragment before any of them is posted: what is to be durable before
  // a shard can have it. An error ends the sync before anything was posted.
  using BeforePosting = std::function<absl::Status(std::span<const SegmentPush>)>;

  // All outlive this. order: of all segments (SendOrder). observer: may be null.
  FragmentSync(SyncPipeline* pipeline, Exchange* exchange, std::vector<uint32_t> order,
               SyncObserver* observer = nullptr)
      : pipeline_(pipeline), exchange_(exchange), order_(std::move(order)), observer_(observer) {}

  // Encodes the fragment's segments in their order and posts each as soon as it is encoded, or all
  // of them once `before_posting` has seen them. epoch: of the membership; weight: tokens behind
  // the signal. Errors: those of SyncPipeline::Encode.
  absl::Status Send(uint32_t round, uint32_t fragment, double learning_rate, uint32_t epoch,
                    uint64_t weight, const BeforePosting& before_posting = nullptr);

  // Applies the merged updates of what Send posted, each as it comes, then ends the fragment unless
  // something is missing(). `stopped` is asked a few times a second while nothing comes.
  // Contributions that were late go back into the residual; those whose fate nobody knows do not.
  // Cancelled: `stopped` said yes. FailedPrecondition: a shard rejected a push (its sentence).
  absl::Status Apply(const std::function<bool()>& stopped);

  // Of the last Apply. Segments whose updates nobody keeps any more.
  const std::vector<uint32_t>& missing() const { return missing_; }
  // Contributions of the last Apply whose fate nobody knows: lost, or counted.
  uint32_t unknown_fates() const { return unknown_fates_; }
  // Contributions of the last Apply that were late, and are in the residual again.
  uint32_t late() const { return late_; }
  // Of the last Send.
  uint32_t round() const { return round_; }

  const SyncSeconds& seconds() const { return seconds_; }

 private:
  absl::StatusOr<SyncPipeline::Push> Encode(uint32_t segment);
  absl::Status Post(SegmentPush push);
  absl::Status ApplyNext(const std::function<bool()>& stopped);

  SyncPipeline* const pipeline_;
  Exchange* const exchange_;
  const std::vector<uint32_t> order_;
  SyncObserver* const observer_;
  uint32_t round_ = 0;
  uint32_t awaited_ = 0;  // posted, and not applied yet
  std::vector<uint32_t> missing_;
  uint32_t unknown_fates_ = 0;
  uint32_t late_ = 0;
  SyncSeconds seconds_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_FRAGMENT_SYNC_H_
