#ifndef LONGWAVE_CLI_VIEW_H_
#define LONGWAVE_CLI_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/summary.h"
#include "cli/text.h"
#include "common/config/run_config.h"
#include "common/control/control.h"

namespace longwave {

// The views of a run's state: pure functions of it, without terminal, clock or cluster.

struct ViewInput {
  const RunConfig* config = nullptr;
  const RunStatus* status = nullptr;  // with every record of the run
  // False: the live view. True: all that is known, once, for `status` and for the end of `up`.
  bool is_whole = false;
  const Summary* end = nullptr;  // of a run of `up` that has ended
  std::string run_folder;        // empty: on another machine
  std::string coordinator_address;
  double elapsed_s = 0;   // since the command began
  uint32_t restarts = 0;  // of processes that were killed
  std::string note;       // the last line: the reason for waiting, or the failure
  std::string notice;     // in its place, in the live view, where there is no note
};

// Preset, model, cluster and run folder.
std::vector<std::string> HeaderLines(const ViewInput& input, const TextStyle& style);
// Header, progress, losses, traffic and the tables of processes. A narrow style loses the tables'
// least useful columns. The live view is within the style's height, too: the shards' table is cut
// first, then the workers'; the note stays.
std::vector<std::string> ViewLines(const ViewInput& input, const TextStyle& style);

// A sentence for each reason why the run waits, and each trouble and complaint of the shards; empty
// if all is well.
std::vector<std::string> TroubleLines(const RunStatus& status);

}  // namespace longwave

#endif  // LONGWAVE_CLI_VIEW_H_
