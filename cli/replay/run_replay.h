#ifndef LONGWAVE_CLI_REPLAY_RUN_REPLAY_H_
#define LONGWAVE_CLI_REPLAY_RUN_REPLAY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "server/audit/shard_audit.h"

namespace longwave {

// A round that the coordinator has recorded as finished.
struct RecordedRound {
  uint32_t round = 0;
  std::optional<uint64_t> state_hash;  // nullopt: replicas differed, or not known
};

struct RunReplayInput {
  const RunConfig* config = nullptr;
  const Layout* layout = nullptr;
  std::vector<std::string> shard_folders;  // by shard index
  std::vector<float> initial;              // the weights before round 0; empty: not known
  uint32_t threads = 1;
  std::vector<RecordedRound> recorded;  // in their order
  Intervals intervals;  // with sync.inner_steps auto: the decided rounds; later ones are left out
};

struct RunReplayReport {
  struct Shard {
    ShardFindings findings;
    uint64_t records = 0;
    uint64_t first_sequence = 0;
    uint64_t tail_bytes = 0;  // never synced; not counted
  };
  uint64_t run = 0;
  std::vector<Shard> shards;
  uint64_t models_compared = 0;
  uint64_t rounds_compared = 0;  // with the coordinator's records
  std::vector<std::string> model_problems;
  // The state that all replicas share after the last round that all segments have; nullopt, with
  // why_no_state, if it cannot be recomputed.
  std::optional<uint64_t> state_hash;
  uint32_t rounds = 0;
  bool ends_within_round = false;  // some segments have later rounds
  std::vector<float> parameters;   // flat, as the layout orders them; empty without state_hash
  std::string why_no_state;

  uint64_t problem_count() const;
  std::vector<std::string> problems() const;  // the first ones
};

// Audits every shard's log (ShardAudit) and recomputes the model (ModelReplay); reads only. The
// logs must have every recorded round, and the model after it must match the record (for the latest
// rounds, if 2^24 hashes of segments do not suffice). This finds a shard that went on from an
// outdated folder: such a shard makes some rounds twice and keeps the second ones. The report has
// the run's defects. Errors are about reading: NotFound, DataLoss, FailedPrecondition (a folder of
// another run, shard or layout).
absl::StatusOr<RunReplayReport> ReplayRun(const RunReplayInput& input);

// The part of the configuration that a merge depends on.
MergeOptions MergeOptionsOf(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPLAY_RUN_REPLAY_H_
