#ifndef LONGWAVE_CLI_PLAN_FROM_RUN_H_
#define LONGWAVE_CLI_PLAN_FROM_RUN_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"

namespace longwave {

// Figures of the machines of a run of `up`, as means over its workers.
struct RunFigures {
  RunConfig config;
  double step_s = 0;
  // Elements of tiles a second; 0: the log's hundredths of a second do not show it.
  double encode = 0, decode = 0;
  // Bytes a second, both ways, while workers waited for updates: the links, with all that is on the
  // way. 0: they hardly waited.
  double link = 0;
  std::string seconds;  // "computing 3.20, encoding 0.05, …", a round
};

// Of metrics.jsonl, the workers' logs and config.yaml. Errors: NotFound (no run of `up`),
// FailedPrecondition (no round yet), InvalidArgument (its configuration).
absl::StatusOr<RunFigures> FiguresOf(const std::string& run_folder);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PLAN_FROM_RUN_H_
