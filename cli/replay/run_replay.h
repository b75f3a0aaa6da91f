#ifndef LONGWAVE_CLI_REPLAY_RUN_REPLAY_H_
#define LONGWAVE_CLI_REPLAY_RUN_REPLAY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "server/audit/shard_audit.h"

namespace longwave {

// Of a round that the coordinator has recorded as finished.
struct RecordedRound {
  uint32_t round = 0;
  std::optional<uint64_t>
      state_hash;  // of all replicas; nothing: they differed, or it is not known
};

struct RunReplayInput {
  const RunConfig* config = nullptr;
  const Layout* layout = nullptr;
  std::vector<std::string> shard_folders;  // by shard index
  std::vector<float> initial;              // the weights before round 0; empty: not known
  uint32_t threads = 1;
  std::vector<RecordedRound> recorded;  // in the order in which they were
};

struct RunReplayReport {
  struct Shard {
    ShardFindings findings;
    uint64_t records = 0;
    uint64_t first_sequence = 0;
    uint64_t tail_bytes = 0;  // that were never synced, and count for nothing
  };
  uint64_t run = 0;
  std::vector<Shard> shards;
  uint64_t models_compared = 0;
  uint64_t rounds_compared = 0;  // with what the coordinator has recorded
  std::vector<std::string> model_problems;
  // What all replicas share after the last round; nothing, and why: it cannot be made again.
  std::optional<uint64_t> state_hash;
  uint32_t rounds = 0;
  std::vector<float> parameters;  // flat, as the layout orders them; empty without state_hash
  std::string why_no_state;

  uint64_t problem_count() const;
  std::vector<std::string> problems() const;  // the first of them
};

// Audits every shard's log (ShardAudit) and makes the model again (ModelReplay), reading only. The
// logs must have every recorded round, and the model after it must be the recorded one (of the
// latest rounds, where 2^24 hashes of segments are not enough): a shard that had gone on from a
// folder of an older time would have made some rounds twice, and kept the second ones. What is
// wrong with the run is in the report; an error is about the reading: NotFound, DataLoss,
// FailedPrecondition (a folder of another run, shard or layout).
absl::StatusOr<RunReplayReport> ReplayRun(const RunReplayInput& input);

// The part of the configuration that decides what a merge makes.
MergeOptions MergeOptionsOf(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPLAY_RUN_REPLAY_H_
