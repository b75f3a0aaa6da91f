#ifndef LONGWAVE_CLI_LOGS_H_
#define LONGWAVE_CLI_LOGS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace longwave {

struct LogsOptions {
  std::string run;  // its folder, or its name in runs_dir
  std::string runs_dir = "runs";
  std::vector<std::string> processes;  // "worker-0"; empty: all
  bool follow = false;
};

// `longwave logs`: prints the logs of a run of `longwave up`, ordered by time.
absl::Status PrintLogs(const LogsOptions& options);

// Merges processes' lines by their times, in UTC or, of earlier versions, in the local zone; a line
// without a time follows the line before it of its process. A process's lines stay in their order
// where the clock was set back. Each line gets its process's name. logs: each process's name, and
// whole lines of its log.
std::vector<std::string> MergeLogs(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& logs);

}  // namespace longwave

#endif  // LONGWAVE_CLI_LOGS_H_
