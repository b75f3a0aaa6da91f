#ifndef LONGWAVE_CLI_SUMMARY_H_
#define LONGWAVE_CLI_SUMMARY_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/run_config.h"
#include "common/control/control.h"

namespace longwave {

enum class RunOutcome : uint8_t { kFinished, kFailed, kStopped, kParked };
std::string_view Name(RunOutcome outcome);  // "finished", "failed", "stopped", "parked"

// The results of a run, for the final table and for summary.json.
struct Summary {
  RunOutcome outcome = RunOutcome::kFailed;
  std::string failure;  // one sentence, if it failed
  std::string preset;
  uint32_t workers = 0;
  uint32_t shards = 0;
  uint64_t params = 0;
  uint64_t steps = 0;                                          // done by every worker
  uint64_t rounds = 0;                                         // finished by every worker
  uint64_t tokens = 0;                                         // over all workers
  std::optional<double> train_loss;                            // of the last round
  double val_loss = std::numeric_limits<double>::quiet_NaN();  // the last one
  double wall_seconds = 0;                                     // of the training
  double total_seconds = 0;  // from the command's start to its end
  ByteCounts bytes;          // sums over workers
  bool replicas_equal = false;
  bool replicas_may_differ = false;  // the method lets each worker apply its own update
  uint64_t state_hash = 0;
  std::string model_file;
  uint64_t repairs = 0;               // replicas that had to fetch segments again
  uint32_t restarts = 0;              // of processes that were killed
  std::vector<std::string> expelled;  // names of workers
  std::vector<std::string> warnings;  // sentences
  std::vector<std::string> alike;     // what the workers have alike beside their replicas

  double tokens_per_second() const { return wall_seconds > 0 ? tokens / wall_seconds : 0; }
  // The bytes that DDP (a gradient a step) and DiLoCo (a pseudo-gradient a round) would have sent
  // so far in fp32, summed over workers; the same in each direction.
  uint64_t bytes_ddp_fp32() const { return steps * 4 * params * workers; }
  uint64_t bytes_diloco_fp32() const { return rounds * 4 * params * workers; }
};

// `status` has every record of the run. A finished run counts as failed if its replicas differ
// where the method promises equal ones.
Summary Summarize(const RunConfig& config, const RunStatus& status, RunOutcome outcome,
                  std::string failure, double total_seconds);

// The run's finished rounds, with those that every worker has skipped.
uint64_t RoundsDone(const RunStatus& status);

// The inner steps that all live workers have done.
uint64_t StepsDone(const RunStatus& status);
// Rounds of the run, or with sync.inner_steps auto as many as are expected; 0: not known.
uint64_t RoundsOf(const RunConfig& config, const RunStatus& status);
// Sums over workers, lost ones included.
ByteCounts TotalBytes(const RunStatus& status);

// The live workers' mean; NaN without any.
double TrainLoss(const RunStatus& status);
// The last round's speed, since an average over a run of a few hundred steps would change too late;
// of a run that is over the average.
double TokensPerSecond(const RunStatus& status);
// Seconds for the rest of the run at the average speed so far; NaN before the first step.
double SecondsLeft(const RunConfig& config, const RunStatus& status);
// Rounds that the worker has finished; its state has the one in progress.
uint32_t RoundsDone(const WorkerState& state);
// The shard's state: "up" (accepts pushes), "trouble" (accepts none) or "silent" (the heartbeat
// timeout has passed).
std::string_view Name(const ShardStatus& shard);

// Whether the replicas are equal, in words.
std::string ReplicasText(const Summary& summary);
// The last line of `up`.
std::string ClosingLine(const Summary& summary, const std::string& run_folder);
// The figures that summary.json and `status --json` have in common.
nlohmann::ordered_json FiguresJson(const Summary& summary);
std::string FormatSummaryJson(const Summary& summary);

}  // namespace longwave

#endif  // LONGWAVE_CLI_SUMMARY_H_
