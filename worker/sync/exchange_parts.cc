#include "worker/sync/exchange_parts.h"

#include <cmath>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

// The burst after a pause, as time at the worker's rate: long enough to hide a thread's coarse
// wake-ups. A frame leaves whole once the bucket owes nothing, so a router's queue gets the burst
// and one frame at link speed. One frame is small for compressed payloads but megabytes for dense
// ones (a segment of 4 MB in fp32). The rate is an average over frames.
constexpr double kBurstSeconds = 0.05;

uint64_t BytesPerSecond(double mbit) { return static_cast<uint64_t>(std::ceil(mbit * 1e6 / 8)); }

}  // namespace

TokenBucket BucketFor(double mbit) {
  const uint64_t rate = BytesPerSecond(mbit);
  return TokenBucket(rate, static_cast<uint64_t>(static_cast<double>(rate) * kBurstSeconds));
}

LedgerOptions LedgerOptionsFor(const ExchangeOptions& options, const Layout& layout) {
  const uint32_t shards = layout.options().shard_count;
  LedgerOptions ledger{.run = options.run,
                       .worker = options.worker,
                       .node = options.node,
                       .owned = SegmentsOfRank(layout, options.node.rank, options.node.ranks),
                       .connections = {},
                       .connection_count = shards * options.connections,
                       // Seconds as numbers increase: connections are replaced seconds apart at the
                       // earliest.
                       .connection_number = static_cast<uint32_t>(absl::ToUnixSeconds(absl::Now())),
                       .workers = options.workers,
                       .download_bytes_per_s = BytesPerSecond(options.max_download_mbit / shards),
                       .hello_every = options.hello_every,
                       .snapshot_bytes = {}};
  // Each fragment alone should use all connections.
  const uint32_t fragments = FragmentCount(options.fragments, layout);
  for (uint32_t s = 0; s < layout.segments().size(); ++s) {
    const Segment& segment = layout.segments()[s];
    ledger.connections.push_back(segment.shard * options.connections +
                                 s / fragments % options.connections);
    ledger.snapshot_bytes.push_back(segment.coefficient_count * sizeof(float));
  }
  return ledger;
}

absl::Status CheckShardCount(size_t endpoints, size_t shards) {
  if (endpoints == shards) return absl::OkStatus();
  return InvalidArgument("exchange: got ", endpoints, " shard endpoints, wanted ", shards);
}

absl::Status ConnectShard(const std::string& endpoint, uint32_t connections, const CurveKeys& keys,
                          Dealers* dealers) {
  for (uint32_t c = 0; c < connections; ++c) {
    // Frames for an absent shard stay in the ledger, which paces them when they leave.
    LONGWAVE_ASSIGN_OR_RETURN(
        std::unique_ptr<Dealer> dealer,
        Dealer::Connect(endpoint, {.only_while_connected = true, .keys = keys}));
    dealers->push_back(std::move(dealer));
  }
  return absl::OkStatus();
}

void Add(const LinkCounts& counts, ByteCounts* sum) {
  sum->pushed += counts.sent;
  sum->pulled += counts.received;
  sum->payload_pushed += counts.payload_sent;
  sum->payload_pulled += counts.payload_received;
}

}  // namespace longwave
