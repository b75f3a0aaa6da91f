#ifndef LONGWAVE_CLI_REPORT_RUN_LOGS_H_
#define LONGWAVE_CLI_REPORT_RUN_LOGS_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace longwave {

// The workers of a run, of their logs (docs/reference/run-folder.md): for each its name and, as
// arrays, round, compute_share and round_seconds, a value for each pair of lines about rounds, and
// the sums of the parts of a sync's time. Thinned to kWorkerPoints.
inline constexpr size_t kWorkerPoints = 200;
nlohmann::ordered_json WorkersOf(const std::string& logs_folder);

// The lines of the logs of coordinator and shards, and the warnings and errors of all processes:
// [{time, process, level, text}] by time. Of more than kEventsMax the middle is left out, and an
// event says how many.
inline constexpr size_t kEventsMax = 2000;
nlohmann::ordered_json EventsOf(const std::string& logs_folder);

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPORT_RUN_LOGS_H_
