#ifndef LONGWAVE_WORKER_SYNC_EXCHANGE_H_
#define LONGWAVE_WORKER_SYNC_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/link/curve.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "worker/sync/ledger_options.h"
#include "worker/sync/worker_ledger.h"

namespace longwave {

struct ExchangeOptions {
  uint64_t run = 0;
  uint32_t worker = 0;
  NodeRank node = {};                             // whose segments this exchange carries
  std::vector<std::string> shard_endpoints;       // by shard index, "tcp://host:port"
  uint32_t workers = 1;                           // of the run; all share the shards' links
  CurveKeys keys = {};                            // of this worker, if data is encrypted
  uint32_t connections = 1;                       // to each shard
  uint32_t fragments = 1;                         // wanted; see FragmentCount
  double max_upload_mbit = 0;                     // over all shards, 10^6 bit/s; 0: no limit
  double max_download_mbit = 0;                   // likewise; enforced by the shards
  absl::Duration hello_every = absl::Seconds(2);  // while no answer comes
};

// Options of the ledger of an exchange with these.
LedgerOptions LedgerOptionsFor(const ExchangeOptions& options, const Layout& layout);

// Carries contributions to the shards and merged updates back while the caller computes. The
// implementation paces the sending and repeats lost frames. Bounded: each segment has one open
// contribution at a time, which is settled once. Fetches of missed rounds use the same connections.
// A connection without an answer for long is replaced (Connections::TakeLost), and logged once
// until an answer comes. One caller at a time, but for Post, which any thread calls.
class Exchange {
 public:
  // The exchange over ZeroMQ, with a thread of its own, which also validates the updates. `layout`
  // outlives it. InvalidArgument: the endpoints.
  static absl::StatusOr<std::unique_ptr<Exchange>> Connect(const ExchangeOptions& options,
                                                           const Layout& layout);
  virtual ~Exchange() = default;

  // Returns at once, and ends a fetch of the segment. InvalidArgument: no such segment.
  // FailedPrecondition: the segment's last contribution is not settled.
  virtual absl::Status Post(SegmentPush push) = 0;

  // The next settled contribution, in no particular order; nullopt within `timeout`.
  // FailedPrecondition, and no more contributions: a shard rejected a frame (its sentence).
  virtual absl::StatusOr<std::optional<Settled>> Next(absl::Duration timeout) = 0;
  // Whether Next returns one at once.
  virtual bool HasSettled() const { return false; }

  // Fetches the rounds from `from_round` to `until_round` (exclusive) of a segment, or up to the
  // present: see NextFetched. A Post to the segment ends the fetch, and so does another fetch.
  // Returns at once. Errors: as Post.
  virtual absl::Status Fetch(uint32_t segment, uint32_t from_round,
                             uint32_t until_round = kRoundNever) = 0;

  // The next event of a fetch, in order for each segment; nullopt within `timeout`. A refusal
  // concerns its segment alone. FailedPrecondition: as Next.
  virtual absl::StatusOr<std::optional<FetchEvent>> NextFetched(absl::Duration timeout) = 0;

  // The newest known open round of any segment.
  virtual uint32_t NewestOpenRound() const { return 0; }

  // A shard's snapshot request, if there is one: the latest of each segment.
  virtual std::optional<SnapshotRequest> NextRequest() { return std::nullopt; }
  // PostSnapshot takes a snapshot of this segment now: no other segment's snapshot waits on its
  // connection. A waiting snapshot costs memory and is outdated once it leaves.
  virtual bool HasSnapshotRoom(uint32_t) const { return true; }
  // Answers a snapshot request (common/wire/snapshot_payload.h). The snapshot leaves once no more
  // urgent frame waits and the snapshot before has arrived. InvalidArgument: no such segment.
  // FailedPrecondition: no room.
  virtual absl::Status PostSnapshot(uint32_t segment, uint32_t round, Buffer payload) = 0;

  // The shards' endpoints by index. Changed ones get new connections and all outstanding frames
  // again. InvalidArgument: the number of endpoints, or an endpoint.
  virtual absl::Status SetEndpoints(const std::vector<std::string>& shard_endpoints) = 0;

  // Sums over all shards since the start, at the sockets, including everything that Next has
  // returned.
  virtual ByteCounts counts() const = 0;
  // Connections replaced since the start for lack of an answer.
  virtual uint64_t renewals() const { return 0; }
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_EXCHANGE_H_
