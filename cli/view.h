#ifndef LONGWAVE_CLI_VIEW_H_
#define LONGWAVE_CLI_VIEW_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/summary.h"
#include "cli/text.h"
#include "common/config/run_config.h"
#include "common/wire/control.h"

namespace longwave {

// What people see of a run, as lines of text: functions of what is known, without a terminal, a
// clock or a cluster.

struct ViewInput {
  const RunConfig* config = nullptr;
  const RunStatus* status = nullptr;  // with every record of the run
  std::string run_folder;
  std::string coordinator_address;
  double elapsed_s = 0;   // since the command began
  uint32_t restarts = 0;  // of processes that were killed
  std::string note;       // the last line: what is being waited for, or what went wrong
};

// Preset, model, cluster and run folder.
std::vector<std::string> HeaderLines(const ViewInput& input, const TextStyle& style);
// The whole live view, header included, within the style's width and height: the shards' table
// gives way first, then workers; the note stays.
std::vector<std::string> LiveLines(const ViewInput& input, const TextStyle& style);
// One finished round, for a log.
std::string RoundLine(const RunConfig& config, const RoundRecord& record,
                      const std::optional<double>& validation_loss);
// True for the rounds that a log of about a hundred lines shows.
bool ShowsRound(const RunConfig& config, uint32_t round_count_done);

// Tables of a status; also what `longwave status` prints. Where the style is too narrow, the
// columns that say least are left out. Who is lost, in trouble, behind or done has a hue.
std::vector<std::string> WorkerLines(const RunStatus& status, const TextStyle& style = kPlainText);
std::vector<std::string> ShardLines(const RunStatus& status, const TextStyle& style = kPlainText);
// What the run waits for, and what the shards have to say: why one takes no pushes, whose
// contribution was of no use of late. A sentence each; none: all is well.
std::vector<std::string> TroubleLines(const RunStatus& status);
// Bytes per worker beside what DDP and DiLoCo would have sent by now; within a narrow width beside
// how many times as much that is.
std::vector<std::string> TrafficLines(const Summary& summary, size_t width = kPlainText.width);

// The table at the end, names of kFinalNameColumns before the values, and the closing line.
inline constexpr size_t kFinalNameColumns = 17;
std::vector<std::string> FinalLines(const Summary& summary, const std::string& run_folder);
std::string ClosingLine(const Summary& summary, const std::string& run_folder);

// Seconds that the rest of the run takes at the pace so far; NaN while there is none.
double SecondsLeft(const RunConfig& config, const RunStatus& status);

}  // namespace longwave

#endif  // LONGWAVE_CLI_VIEW_H_
