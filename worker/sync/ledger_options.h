#ifndef LONGWAVE_WORKER_SYNC_LEDGER_OPTIONS_H_
#define LONGWAVE_WORKER_SYNC_LEDGER_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"

namespace longwave {

// What the parts of WorkerLedger share.
struct LedgerOptions {
  uint64_t run = 0;
  uint32_t worker = 0;
  std::vector<uint32_t> connections;  // by segment: the connection that its frames take
  uint32_t connection_count = 0;
  uint32_t workers = 1;               // that sync at the same time, on the same shards' links
  uint64_t download_bytes_per_s = 0;  // that each shard may send, told by hello; 0: no limit
  absl::Duration retry_after = absl::Seconds(3);  // silence after which a frame is sent again
  absl::Duration hello_every = absl::Seconds(2);  // while it is not welcome, or is owed an answer
  // By segment: how large a snapshot of it may be, for how long one is waited for. Empty: nothing.
  std::vector<uint64_t> snapshot_bytes;
};

// A frame that is to be sent.
struct OutgoingFrame {
  uint32_t connection = 0;
  FrameHeader header;
  Buffer payload;
};

// Waits between two tries where a shard has said that it takes nothing for now: they double.
inline constexpr absl::Duration kBusyBackoffMin = absl::Milliseconds(50);
inline constexpr absl::Duration kBusyBackoffMax = absl::Seconds(2);

// A link as slow as this is given the time that frames of the size outstanding take on it.
inline constexpr uint64_t kBytesPerSecondMin = 125'000;  // 1 Mbit/s

// So is a shard's link, as slow as this, for all that the workers of a round have on it. What came
// to be lost all the same is waited for no longer than that much more.
inline constexpr uint64_t kShardBytesPerSecondMin = 1'250'000;  // 10 Mbit/s
inline constexpr absl::Duration kSharedLinkMax = absl::Seconds(60);

// Each repetition waits twice as long as the one before, so many times.
inline constexpr int kSilenceDoublings = 5;

// How long an answer is waited for until it is asked for once more.
absl::Duration Silence(const LedgerOptions& options, int repetitions, uint64_t outstanding_bytes);
// The same in a round, where every other worker has as much outstanding.
absl::Duration RoundSilence(const LedgerOptions& options, int repetitions,
                            uint64_t outstanding_bytes);

// The wait before the next try, `refusals` of them after the first. Workers that were refused at
// the same time come back at different ones.
absl::Duration BusyBackoff(const LedgerOptions& options, uint32_t segment, int refusals);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_LEDGER_OPTIONS_H_
