#ifndef LONGWAVE_CLI_PLAN_METHODS_H_
#define LONGWAVE_CLI_PLAN_METHODS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/plan/plan.h"
#include "common/config/config.h"

namespace longwave {

// The run under another preset: its `sync` keys, with the overrides of such keys. A run keeps its
// own keys under its own preset. Errors: InvalidArgument (no such preset, overrides or a run that
// contradict it).
absl::StatusOr<RunConfig> WithMethod(const RunConfig& run, const std::string& method,
                                     const Overrides& overrides);

// Where docs/reference/benchmarks.md has what the method costs in loss, since no formula says it.
std::string EvidenceOf(const std::string& method);

struct PlannedMethod {
  PlanInputs inputs;
  Plan plan;
};

// The part of a sync that takes longest, in a sentence.
std::string BindingOf(const PlannedMethod& method);
// The cheapest change that brings the syncs' share down to the target or, if none does, nearest to
// it: a slow worker's batch, a slow shard's link, H, another of `all`, then a faster link. A
// sentence.
absl::StatusOr<std::string> ChangeFor(const PlannedMethod& method,
                                      const std::vector<PlannedMethod>& all);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PLAN_METHODS_H_
