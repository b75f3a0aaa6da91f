#ifndef LONGWAVE_WORKER_SYNC_LEDGER_OPTIONS_H_
#define LONGWAVE_WORKER_SYNC_LEDGER_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"

namespace longwave {

// Options that the parts of WorkerLedger share.
struct LedgerOptions {
  uint64_t run = 0;
  uint32_t worker = 0;
  NodeRank node;
  SegmentRange owned = {0, ~uint32_t{0}};  // the rank's; requests of other segments are ignored
  std::vector<uint32_t> connections;       // by segment: the connection that its frames take
  uint32_t connection_count = 0;
  // Each connection's first number. Earlier processes of this worker used smaller ones.
  uint32_t connection_number = 0;
  uint32_t workers = 1;               // syncing at the same time on the same shards' links
  uint64_t download_bytes_per_s = 0;  // limit of each shard, named by hellos; 0: no limit
  absl::Duration hello_every = absl::Seconds(2);  // until welcome or answered
  // Upper bound of each segment's snapshot, by segment; sets the patience for snapshots. Empty:
  // none.
  std::vector<uint64_t> snapshot_bytes;
};

// A frame to send.
struct OutgoingFrame {
  uint32_t connection = 0;
  FrameHeader header;
  Buffer payload;
};

// Waits between two tries at a busy shard; they double.
inline constexpr absl::Duration kBusyBackoffMin = absl::Milliseconds(50);
inline constexpr absl::Duration kBusyBackoffMax = absl::Seconds(2);

// The slowest worker link that timeouts allow for.
inline constexpr uint64_t kBytesPerSecondMin = 125'000;  // 1 Mbit/s

// The slowest shard link that timeouts allow for, shared by a round's workers, up to a limit.
inline constexpr uint64_t kShardBytesPerSecondMin = 1'250'000;  // 10 Mbit/s
inline constexpr absl::Duration kSharedLinkMax = absl::Seconds(60);

// The longest time that so many bytes take there and back, with as many outstanding at every other
// worker.
absl::Duration TimeOnTheWay(const LedgerOptions& options, uint64_t outstanding_bytes);

// The wait before the next try after `refusals` earlier waits. The wait is random, so that workers
// rejected at the same time return at different times.
absl::Duration BusyBackoff(const LedgerOptions& options, uint32_t segment, int refusals);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_LEDGER_OPTIONS_H_
