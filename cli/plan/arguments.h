#ifndef LONGWAVE_CLI_PLAN_ARGUMENTS_H_
#define LONGWAVE_CLI_PLAN_ARGUMENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/plan/plan.h"

namespace longwave {

// The command's texts as values. `option` is the one that a sentence names. Errors:
// InvalidArgument.

// Bytes a second of a rate in bits: "10Mbit", "1.5Gbit", "800kbit".
absl::StatusOr<double> ParseRate(const std::string& option, const std::string& text);
// Seconds of "40ms", "0.5s", "1m30s".
absl::StatusOr<double> ParseSeconds(const std::string& option, const std::string& text);

// Workers that are equal, "count=2,up=100Mbit,down=1Gbit,rtt=40ms,step=0.5s": what is left out is
// as in `like`.
absl::StatusOr<PlanWorkers> ParseWorkers(const std::string& text, const PlanWorkers& like);
// Shards that are equal, "count=3,up=1Gbit,down=1Gbit", one after the other.
absl::StatusOr<std::vector<PlanLink>> ParseShards(const std::string& text, const PlanLink& like);

// "encode=100,decode=200,merge=300", each in 10⁶ elements a second.
absl::Status ParseKernels(const std::string& text, PlanRates* rates);
// "rate=200,sync=2ms": 10⁶ bytes a second, and the time until a small write is on the disk.
absl::Status ParseDisk(const std::string& text, PlanRates* rates);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PLAN_ARGUMENTS_H_
