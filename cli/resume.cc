// The check of a configuration with which `longwave up --resume` goes on with a run.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "cli/runs.h"
#include "cli/up.h"
#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/control/longer_run.h"
#include "server/store/coordinator_store.h"
#include "server/store/posix_file_system.h"
#include "worker/member/schedule.h"
#include "worker/member/sync_options.h"

namespace longwave {
namespace {

// Whether the round takes fewer inner steps than its interval, as the run ends before.
bool IsShort(const RoundPlan& plan, uint32_t round) {
  return plan.FirstStep(round) + plan.InnerSteps(round) > plan.steps();
}

// Whether the run may be made longer where it is. Prints what that does to the learning rate.
absl::Status CheckLonger(const RunFolder& folder, const RunConfig& before,
                         const RunConfig& config) {
  const uint64_t steps = before.run.steps, rounds = RoundsRecorded(folder.path());
  RoundPlan plan = RoundPlanOf(before);
  if (FitsInterval(before)) {
    LONGWAVE_ASSIGN_OR_RETURN(
        const CoordinatorFile file,
        ReadCoordinatorFolder(*MakePosixFileSystem(), folder.path() + "/state/coordinator"));
    LONGWAVE_RETURN_IF_ERROR(plan.Extend(file.record.intervals));
  }
  const uint64_t count = plan.round_count();
  if (before.sync.follow_schedule) {
    return FailedPrecondition("--resume: got run.steps: ", config.run.steps, "; wanted ", steps,
                              ", since sync.follow_schedule has merged its rounds by the learning "
                              "rates of that many");
  }
  // A last round of fewer inner steps cannot become one of all.
  const bool is_short = count != kRoundNever && IsShort(plan, static_cast<uint32_t>(count) - 1);
  if (rounds + (is_short ? 1 : 0) >= count) {
    return FailedPrecondition("--resume: got run.steps: ", config.run.steps, " for a run of ",
                              steps, " with ", rounds, " of ", count,
                              " rounds; wanted it before the last round. A new run goes on from "
                              "its weights: longwave up --start-from ",
                              folder.model_file());
  }
  if (config.model.kind == "external") {
    PrintLine(stdout, "run.steps: ", steps, " -> ", config.run.steps,
              ": the learning rate is what the workers' own loops make of it");
    return absl::OkStatus();
  }
  const uint64_t step = plan.FirstStep(static_cast<uint32_t>(rounds));
  PrintLine(stdout, "run.steps: ", steps, " -> ", config.run.steps, ": the learning rate of step ",
            step, " is ", Schedule(config.train, config.run.steps).LearningRate(step),
            ", no longer ", Schedule(before.train, steps).LearningRate(step),
            "; its schedule goes on as that of a run with so many steps");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSameRun(const RunFolder& folder, const std::vector<std::string>& overrides,
                          const RunConfig& config) {
  LONGWAVE_ASSIGN_OR_RETURN(RunConfig again, LoadConfig(folder.config_file(), overrides));
  again.data = config.data;  // whose paths are made absolute
  if (FormatConfig(again) != FormatConfig(config)) {
    return DataLoss(folder.config_file(),
                    ": two reads of it differ, wanted the same twice; nothing was changed");
  }
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig before, LoadConfig(folder.config_file()));
  if (IsLongerRun(BindingSettings(before), BindingSettings(config)))
    return CheckLonger(folder, before, config);
  const std::vector<std::string> was = absl::StrSplit(BindingSettings(before), '\n');
  const std::vector<std::string> is = absl::StrSplit(BindingSettings(config), '\n');
  const auto [had, got] = std::ranges::mismatch(was, is);
  if (had == was.end() || got == is.end()) return absl::OkStatus();
  return FailedPrecondition("--resume: got ", *got, "; wanted ", *had, ", as the run in ",
                            folder.path(), " has it");
}

}  // namespace longwave
