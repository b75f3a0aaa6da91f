#ifndef LONGWAVE_SERVER_SHARD_STATE_SHARD_RECOVERY_H_
#define LONGWAVE_SERVER_SHARD_STATE_SHARD_RECOVERY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/wire/frame.h"
#include "server/shard/aggregator.h"
#include "server/store/shard_store.h"

namespace longwave {

// Where a segment stands in its shard's folder.
struct SegmentProgress {
  uint32_t open_round = 0;   // as in the log
  uint32_t first_round = 0;  // the first that this shard has closed or will close
  uint64_t replay_from = 1;  // the first record that may belong to its open round
  bool has_state = false;    // the folder has a state snapshot, or the record of a restore
  bool state_is_due = false;
  // The disk may have lost the log's end, and no round has closed since.
  bool may_be_short = false;
};

// The segment's state is to be written after this round.
inline bool StateIsDueAfter(const MergedFrame& merged, uint32_t state_rounds) {
  return (uint64_t{merged.round} + merged.segment) % state_rounds == 0;
}

// A sentence for the process's log.
std::string RestoredText(const RestoredRecord& record);

struct RecoveryOptions {
  SegmentRange segments;      // the shard's
  uint32_t state_rounds = 1;  // see DurableShardOptions, as those below
  uint32_t rounds = 0;
  bool restore = false;
};
struct RecoveredShard {
  std::vector<SegmentProgress> progress;  // by segment, from the shard's first
  uint64_t replayed_from = 1;             // the first record that was read
  bool restores = false;  // segments without a state are to come from the members' replicas
};
// Brings a new aggregator to where the folder is: each segment's latest state snapshot, then the
// log's records after it. Appends sentences for the process's log. FailedPrecondition: the folder
// lacks rounds that the run has finished. DataLoss: a segment has no state that leads to the log.
// Other errors: the store's and the aggregator's.
absl::StatusOr<RecoveredShard> RecoverSegments(const RecoveryOptions& options, ShardStore& store,
                                               Aggregator& aggregator,
                                               std::vector<std::string>& notices);

// The first record that a recovery or a catch-up from either of the two newest snapshots of any of
// these segments needs. models: of its models, too, not of its states alone. nullopt: all of the
// log, since a segment has fewer, and a single one may be damaged.
std::optional<uint64_t> LogNeededFrom(const SnapshotStore& snapshots, SegmentRange segments,
                                      bool models);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_SHARD_RECOVERY_H_
