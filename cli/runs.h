#ifndef LONGWAVE_CLI_RUNS_H_
#define LONGWAVE_CLI_RUNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/commands.h"

namespace longwave {

// Runs of `longwave up` on this machine: their list, their names and their records.

// The lines of `longwave runs`: a head and a row for each run in the folder, the last one first.
// Errors: NotFound, PermissionDenied (the folder).
absl::StatusOr<std::vector<std::string>> RunLines(const std::string& runs_dir);

// The coordinator that a command is about. given.address: host:port, or the folder of a run of `up`
// that runs, or its name in runs_dir. That folder has the address, and the operator's credentials
// where none are given. Errors: FailedPrecondition (the run does not run), InvalidArgument (neither
// an address nor a run), PermissionDenied.
absl::StatusOr<Target> FindTarget(const Target& given, const std::string& runs_dir);

// The rounds that the run's records (metrics.jsonl) have.
uint64_t RoundsRecorded(const std::string& run_folder);

// `longwave metrics`: prints the records of a run's rounds, metrics.jsonl of its folder, as CSV.
// Errors: NotFound (no rounds), PermissionDenied.
absl::Status PrintMetrics(const std::string& run_folder);

}  // namespace longwave

#endif  // LONGWAVE_CLI_RUNS_H_
