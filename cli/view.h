#ifndef LONGWAVE_CLI_VIEW_H_
#define LONGWAVE_CLI_VIEW_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/summary.h"
#include "cli/text.h"
#include "common/config/run_config.h"
#include "common/control/control.h"

namespace longwave {

// Texts about a run for people: pure functions of the known state, without terminal, clock or
// cluster.

struct ViewInput {
  const RunConfig* config = nullptr;
  const RunStatus* status = nullptr;  // with every record of the run
  std::string run_folder;             // empty: on another machine
  std::string coordinator_address;
  double elapsed_s = 0;   // since the command began
  uint32_t restarts = 0;  // of processes that were killed
  std::string note;       // the last line: the reason for waiting, or the failure
  std::string notice;     // in its place, in the live view, where there is no note
};

// Preset, model, cluster and run folder.
std::vector<std::string> HeaderLines(const ViewInput& input, const TextStyle& style);
// The whole live view, header included, within the style's width and height. The shards' table is
// cut first, then the workers'; the note stays.
std::vector<std::string> LiveLines(const ViewInput& input, const TextStyle& style);
// A finished round, for a log.
std::string RoundLine(const RunConfig& config, const RoundRecord& record,
                      const std::optional<double>& validation_loss);
// Whether a log of about a hundred lines shows the round.
bool ShowsRound(const RunConfig& config, uint32_t round_count_done);

// Tables of a status; `longwave status` prints them too. A narrow style loses the least useful
// columns. Lost, troubled, late and finished processes have a hue.
std::vector<std::string> WorkerLines(const RunStatus& status, const TextStyle& style = kPlainText);
std::vector<std::string> ShardLines(const RunStatus& status, const TextStyle& style = kPlainText);
// A sentence for each reason why the run waits, and each trouble and complaint of the shards; empty
// if all is well.
std::vector<std::string> TroubleLines(const RunStatus& status);
// Bytes for each worker beside those of DDP and DiLoCo so far; in a narrow width only their
// ratios to it.
std::vector<std::string> TrafficLines(const Summary& summary, size_t width = kPlainText.width);

// The final table, with names of kFinalNameColumns before the values, and the closing line.
inline constexpr size_t kFinalNameColumns = 17;
std::vector<std::string> FinalLines(const Summary& summary, const std::string& run_folder);
std::string ClosingLine(const Summary& summary, const std::string& run_folder);

// The live workers' mean; NaN without any.
double TrainLoss(const RunStatus& status);
// The last round's speed: an average over a run of a few hundred steps would change too late.
double TokensPerSecond(const RunStatus& status);
// Rounds that the worker has finished; its state has the one in progress.
uint32_t RoundsDone(const WorkerState& state);
// The shard's state: "up" (accepts pushes), "trouble" (accepts none) or "silent" (the heartbeat
// timeout has passed).
std::string_view Name(const ShardStatus& shard);

// Seconds for the rest of the run at the average speed so far; NaN before the first step.
double SecondsLeft(const RunConfig& config, const RunStatus& status);

}  // namespace longwave

#endif  // LONGWAVE_CLI_VIEW_H_
