#ifndef LONGWAVE_WORKER_SYNC_FRAGMENT_SYNC_H_
#define LONGWAVE_WORKER_SYNC_FRAGMENT_SYNC_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "worker/sync/exchange.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// Where the time of a worker's syncs goes.
struct SyncSeconds {
  double encoding = 0;
  double waiting = 0;  // for merged updates
  double decoding = 0;
};

// The caller's side of a sync: Send and, now or some inner steps later, Apply. Between the two, and
// while it encodes and decodes, the exchange sends and receives.
class FragmentSync {
 public:
  // All outlive this.
  FragmentSync(SyncPipeline* pipeline, Exchange* exchange, uint32_t segment_count)
      : pipeline_(pipeline), exchange_(exchange), segment_count_(segment_count) {}

  // Encodes the fragment's segments and posts each as soon as it is encoded. epoch: of the
  // membership; weight: tokens behind the signal. Errors: those of SyncPipeline::Encode.
  absl::Status Send(uint32_t round, uint32_t fragment, double learning_rate, uint32_t epoch,
                    uint64_t weight);

  // Applies the merged updates of what Send posted, each as it comes, then ends the fragment.
  // `stopped` is asked a few times a second while nothing comes. Cancelled: it said yes.
  // FailedPrecondition: a shard rejected a push (its sentence).
  absl::Status Apply(const std::function<bool()>& stopped);

  const SyncSeconds& seconds() const { return seconds_; }

 private:
  absl::Status ApplyNext(const std::function<bool()>& stopped);

  SyncPipeline* const pipeline_;
  Exchange* const exchange_;
  const uint32_t segment_count_;
  uint32_t round_ = 0;
  uint32_t awaited_ = 0;  // posted, and not applied yet
  SyncSeconds seconds_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_FRAGMENT_SYNC_H_
