#ifndef LONGWAVE_WORKER_SYNC_EXCHANGE_H_
#define LONGWAVE_WORKER_SYNC_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "common/wire/control.h"
#include "worker/sync/pipeline.h"

namespace longwave {

struct ExchangeOptions {
  uint64_t run = 0;
  uint32_t worker = 0;
  std::vector<std::string> shard_endpoints;        // by shard index, "tcp://host:port"
  absl::Duration retry_after = absl::Seconds(10);  // silence after which a frame is sent again
};

// Carries the pipeline's payloads to the shards and the merged updates back: one connection a
// shard. Not thread-safe.
class Exchange {
 public:
  // `pipeline` and `layout` outlive the exchange.
  static absl::StatusOr<std::unique_ptr<Exchange>> Connect(const ExchangeOptions& options,
                                                           SyncPipeline* pipeline,
                                                           const Layout* layout);
  virtual ~Exchange() = default;

  // One sync: encodes and pushes every segment, applies each merged update as it comes, and returns
  // when θ is the new one. weight: tokens behind this worker's signal. `stopped` is asked a few
  // times a second. Cancelled: it said yes. FailedPrecondition: a shard rejected a push (its
  // sentence).
  virtual absl::Status Sync(uint32_t epoch, uint32_t round, double learning_rate, uint64_t weight,
                            const std::function<bool()>& stopped) = 0;

  // Since the start, over all shards, at the sockets.
  virtual ByteCounts counts() const = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_EXCHANGE_H_
