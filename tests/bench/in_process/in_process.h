#ifndef LONGWAVE_TESTS_BENCH_IN_PROCESS_IN_PROCESS_H_
#define LONGWAVE_TESTS_BENCH_IN_PROCESS_IN_PROCESS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
#include "kernels/ops.h"
#include "server/shard/aggregator.h"
#include "worker/data/corpus.h"
#include "worker/models/device.h"
#include "worker/models/replica.h"
#include "worker/sync/exchange.h"

namespace longwave {

// A run's only shard, a function call away from its workers: the product's aggregator without
// sockets, frames and a log. Any thread may call it.
class ShardInProcess {
 public:
  // A shard of run.workers members, which push from round 0 on.
  static absl::StatusOr<std::unique_ptr<ShardInProcess>> Create(const RunConfig& config);

  // The worker's side; the shard outlives it.
  std::unique_ptr<Exchange> Connect(uint32_t worker);

  // Ends every worker's wait with this error: one of them has ended.
  void Fail(const absl::Status& status);

  // Payload bytes of all workers together, without frames' headers.
  ByteCounts bytes() const;

 private:
  class Connection;
  ShardInProcess(Aggregator aggregator, uint32_t workers)
      : aggregator_(std::move(aggregator)), settled_(workers) {}
  absl::Status Push(uint32_t worker, const SegmentPush& push);
  absl::StatusOr<std::optional<Settled>> Next(uint32_t worker, absl::Duration timeout);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Aggregator aggregator_;
  std::vector<std::vector<Settled>> settled_;  // by worker
  absl::Status failure_;
  ByteCounts bytes_;
};

// The operations that a worker uses: the device's own, or a table around them.
using OpsAround = std::function<const KernelOps*(const KernelOps*, Replica&)>;

struct TrainedInProcess {
  uint64_t parameters = 0;
  RoundReport last;
};

// A worker's whole run, on the thread that calls it: the product's trainer, model, optimizer and
// pipeline beside the shard. validates: after its last round.
absl::StatusOr<TrainedInProcess> TrainInProcess(const RunConfig& config, const Device& device,
                                                const Corpus& data, uint32_t worker, bool validates,
                                                ShardInProcess* shard, const OpsAround& around);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_IN_PROCESS_IN_PROCESS_H_
