#ifndef LONGWAVE_CLI_PLAN_REPORT_H_
#define LONGWAVE_CLI_PLAN_REPORT_H_

#include <string>
#include <vector>

#include "cli/plan/plan.h"

namespace longwave {

// A method as the command shows it.
struct MethodReport {
  Plan plan;
  std::string binds, change, loss;  // sentences
};

struct PlanReport {
  std::vector<MethodReport> methods;
  std::vector<std::string> left_out;  // presets that do not fit, with the reason
  // Where the figures behind the formulae come from: "given", "measured on this machine", …
  std::string steps_from, links_from, kernels_from, disk_from;
  std::string run_seconds;  // of --from, a round; empty: no run was given
  double target_share = 0;
  bool has_activations = true;  // in a worker's memory: the model's layers are known
};

// For people: a paragraph a method, and what the figures rest on.
std::string PlanText(const PlanReport& report);
// {"methods": [{"method": …, …}], "left_out": […], "basis": {…}}
std::string PlanJson(const PlanReport& report);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PLAN_REPORT_H_
