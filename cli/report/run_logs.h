#ifndef LONGWAVE_CLI_REPORT_RUN_LOGS_H_
#define LONGWAVE_CLI_REPORT_RUN_LOGS_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace longwave {

// Of each process its name and the lines of its log, worker-2 before worker-10.
using RunLogs = std::vector<std::pair<std::string, std::vector<std::string>>>;
RunLogs ReadLogs(const std::string& logs_folder);

// The workers of a run, of their logs (docs/reference/run-folder.md): for each its name and, as
// arrays, round, compute_share and round_seconds, a value for each pair of lines about rounds, and
// the sums of the parts of a sync's time. Thinned to kWorkerPoints.
inline constexpr size_t kWorkerPoints = 200;
nlohmann::ordered_json WorkersOf(const RunLogs& logs);

// The lines of the logs of coordinator and shards, and the warnings and errors of all processes:
// [{time, process, level, text}] by time. Of more than kEventsMax the middle is left out, and an
// event says how many.
inline constexpr size_t kEventsMax = 2000;
nlohmann::ordered_json EventsOf(const RunLogs& logs);

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPORT_RUN_LOGS_H_
