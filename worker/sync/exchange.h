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
#include "common/layout/layout.h"
#include "common/link/curve.h"
#include "common/wire/buffer.h"
#include "common/wire/control.h"
#include "worker/sync/worker_ledger.h"

namespace longwave {

struct ExchangeOptions {
  uint64_t run = 0;
  uint32_t worker = 0;
  std::vector<std::string> shard_endpoints;       // by shard index, "tcp://host:port"
  uint32_t workers = 1;                           // of the run: they share the shards' links
  CurveKeys keys = {};                            // of this worker, if data is encrypted
  uint32_t connections = 1;                       // to each shard
  uint32_t fragments = 1;                         // wanted; see FragmentCount
  double max_upload_mbit = 0;                     // over all shards, 10^6 bit/s; 0: no limit
  double max_download_mbit = 0;                   // likewise; the shards keep to it
  absl::Duration retry_after = absl::Seconds(3);  // silence after which a frame is sent again
  absl::Duration hello_every = absl::Seconds(2);  // to who does not answer
};

// Carries contributions to the shards and merged updates back while the caller computes: what is
// posted is sent, paced, repeated and received by whoever implements it. Bounded: of a segment one
// contribution is open at a time, and each is settled once. What a replica has missed is fetched on
// the same connections. A connection that has no answer for long is made anew
// (Connections::TakeLost), which is logged once until it has one. One caller at a time. An
// implementation without shards that keep anything leaves out all that has to do with catching up.
class Exchange {
 public:
  // The one over ZeroMQ, with a thread of its own. InvalidArgument: the endpoints.
  static absl::StatusOr<std::unique_ptr<Exchange>> Connect(const ExchangeOptions& options,
                                                           const Layout& layout);
  virtual ~Exchange() = default;

  // Returns at once. The caller knows that the segment's last contribution was returned by Next:
  // if not, the exchange ends, and Next says so.
  virtual absl::Status Post(SegmentPush push) = 0;

  // The next settled contribution, in no particular order; nothing within `timeout`.
  // FailedPrecondition: a shard rejected a frame (its sentence), or the caller has posted to or
  // fetched a segment that contributes; nothing more will come then.
  virtual absl::StatusOr<std::optional<Settled>> Next(absl::Duration timeout) = 0;

  // Fetches what leads a segment whose rounds before `from_round` are there to `until_round`
  // (exclusive), or to the present: see NextFetched. A Post to the segment ends it, and so does
  // another fetch. Returns at once, and ends the exchange where the segment contributes.
  // InvalidArgument: no such segment.
  virtual absl::Status Fetch(uint32_t segment, uint32_t from_round,
                             uint32_t until_round = kRoundNever);

  // The next thing that a fetch has brought, in order for each segment; nothing within `timeout`.
  // A refusal concerns its segment alone. FailedPrecondition: as Next.
  virtual absl::StatusOr<std::optional<FetchEvent>> NextFetched(absl::Duration timeout);

  // The newest open round of any segment that was heard of.
  virtual uint32_t NewestOpenRound() const { return 0; }

  // A shard's wish for a snapshot of a segment, if there is one. The latest of each segment.
  virtual std::optional<SnapshotAsk> NextAsk() { return std::nullopt; }
  // Whether PostSnapshot takes one of this segment now: no other segment's waits to be sent on its
  // connection. What waits is memory, and out of date by the time that it leaves.
  virtual bool HasSnapshotRoom(uint32_t) const { return true; }
  // Answers one (common/wire/snapshot_payload.h); sent when nothing that is more urgent waits, and
  // the one before has come. InvalidArgument: no such segment. FailedPrecondition: no room.
  virtual absl::Status PostSnapshot(uint32_t segment, uint32_t round, Buffer payload);

  // Where the shards are now, by index. Connections to those that have moved are made anew, and
  // what is outstanding there is sent again. InvalidArgument: their number, an endpoint.
  virtual absl::Status SetEndpoints(const std::vector<std::string>& shard_endpoints);

  // Since the start, over all shards, at the sockets; what Next has returned is in it.
  virtual ByteCounts counts() const = 0;
  // Connections that were made anew since the start, for want of an answer.
  virtual uint64_t renewals() const { return 0; }
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_EXCHANGE_H_
