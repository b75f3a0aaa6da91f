#ifndef LONGWAVE_WORKER_SYNC_EXCHANGE_PARTS_H_
#define LONGWAVE_WORKER_SYNC_EXCHANGE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/token_bucket.h"
#include "common/layout/layout.h"
#include "common/link/link.h"
#include "worker/sync/exchange.h"
#include "worker/sync/ledger_options.h"

namespace longwave {

// Parts of the exchange over ZeroMQ; private to this folder.

using Dealers = std::vector<std::unique_ptr<Dealer>>;

// Paces the upload; 0: no limit.
TokenBucket BucketFor(double mbit);

LedgerOptions LedgerOptionsFor(const ExchangeOptions& options, const Layout& layout);

// InvalidArgument: the number of endpoints is not the number of shards.
absl::Status CheckShardCount(size_t endpoints, size_t shards);

// Appends one shard's connections.
absl::Status ConnectShard(const std::string& endpoint, uint32_t connections, const CurveKeys& keys,
                          Dealers* dealers);

// Adds a connection's counts to a sum over several connections.
void Add(const LinkCounts& counts, ByteCounts* sum);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_EXCHANGE_PARTS_H_
