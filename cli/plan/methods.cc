#include "cli/plan/methods.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/config/config_checks.h"

namespace longwave {
namespace {

// Presets without a row in the table of benchmarks.md that compares them.
constexpr const char* kUnmeasured[] = {"flexdemo", "longwave_lora"};

double HeldShare(const Plan& plan) { return plan.held_s() / plan.round_s; }

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

// The plan with the link that binds at `rate`, a shard's in both directions.
absl::StatusOr<Plan> WithLink(PlanInputs inputs, const PlanPart& part, double rate) {
  using enum PlanPart::Kind;
  if (part.kind == kShardIn || part.kind == kShardOut) {
    PlanLink& link = inputs.shards[part.shard];
    link = {.up = std::max(link.up, rate), .down = std::max(link.down, rate)};
  }
  for (PlanWorkers& workers : inputs.workers) {
    if (part.kind == kWorkerUp) workers.link.up = std::max(workers.link.up, rate);
    if (part.kind == kWorkerDown) workers.link.down = std::max(workers.link.down, rate);
  }
  return MakePlan(inputs);
}

// The rate of the link that binds, the slowest if there are several; 0: no link binds.
double RateOf(const PlanInputs& inputs, const PlanPart& part) {
  using enum PlanPart::Kind;
  double rate = kUnlimited;
  for (const PlanWorkers& workers : inputs.workers) {
    if (part.kind == kWorkerUp) rate = std::min(rate, workers.link.up);
    if (part.kind == kWorkerDown) rate = std::min(rate, workers.link.down);
  }
  if (part.kind == kWorkerUp || part.kind == kWorkerDown) return rate;
  if (part.kind == kShardIn) return inputs.shards[part.shard].down;
  return part.kind == kShardOut ? inputs.shards[part.shard].up : 0;
}

// The rate of the fastest other shard in the same direction; 0: this one is no shard's link.
double RateOfOthers(const PlanInputs& inputs, const PlanPart& part) {
  double rate = 0;
  const bool is_in = part.kind == PlanPart::Kind::kShardIn;
  if (!is_in && part.kind != PlanPart::Kind::kShardOut) return 0;
  for (const PlanLink& link : inputs.shards) rate = std::max(rate, is_in ? link.down : link.up);
  return rate;
}

}  // namespace

absl::StatusOr<RunConfig> WithMethod(const RunConfig& run, const std::string& method,
                                     const Overrides& overrides) {
  if (method == run.run.preset) return run;
  Overrides own = {absl::StrCat("preset=", method)};
  for (const std::string& each : overrides)
    if (absl::StartsWith(each, "sync.")) own.push_back(each);
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig preset,
                            ParseConfig("{}", absl::StrCat("the preset ", method), own));
  RunConfig config = run;
  config.run.preset = method;
  config.sync = preset.sync;
  if (const auto contradiction = FindContradiction(config))
    return InvalidArgument(method, ": ", contradiction->sentence);
  return config;
}

std::string EvidenceOf(const std::string& method) {
  const bool measured = std::ranges::find(kUnmeasured, method) == std::end(kUnmeasured);
  return absl::StrCat("docs/reference/benchmarks.md, The presets on one text: ",
                      measured ? "row " : "no row yet for ", method);
}

std::string BindingOf(const PlannedMethod& method) {
  const PlanPart& part = method.plan.Binding();
  const double rate = RateOf(method.inputs, part);
  return absl::StrFormat("%s%s: busy for %.2f s of a sync's %.2f s", Name(part),
                         rate > 0 ? absl::StrFormat(", at %g Mbit/s", rate * 8 / 1e6) : "",
                         part.seconds, method.plan.sync_s);
}

absl::StatusOr<std::string> ChangeFor(const PlannedMethod& method,
                                      const std::vector<PlannedMethod>& all) {
  const auto& [inputs, plan] = method;
  const double target = inputs.config.sync.target_share;
  const double waiting = 1 - plan.compute_share - HeldShare(plan);
  if (waiting > std::max(target, HeldShare(plan))) {
    return absl::StrCat("a smaller train.batch on the workers whose inner steps take longest: the ",
                        "others wait for them, which is ", Percent(waiting),
                        " of all workers' time, and syncs take ", Percent(HeldShare(plan)));
  }
  if (HeldShare(plan) <= target) {
    return absl::StrCat("none: syncs take ", Percent(HeldShare(plan)), " of a round, and ",
                        Percent(target), " is the target");
  }
  const PlanPart& part = plan.Binding();
  const double rate = RateOf(inputs, part), others = RateOfOthers(inputs, part);
  if (others > rate) {
    LONGWAVE_ASSIGN_OR_RETURN(const Plan changed, WithLink(inputs, part, others));
    return absl::StrFormat(
        "give shard %d the rate of the fastest one%s: a sync takes %.2f s instead of %.2f s",
        part.shard, others < kUnlimited ? absl::StrFormat(", %g Mbit/s", others * 8 / 1e6) : "",
        changed.sync_s, plan.sync_s);
  }
  const double wanted = plan.wanted_inner_steps.value_or(kUnlimited);
  if (wanted <= inputs.config.sync.inner_steps_max) {
    return absl::StrFormat(
        "--set sync.inner_steps=%.0f: syncs take %s of a round; what that costs in loss is in %s",
        wanted, Percent(target), EvidenceOf(plan.method));
  }
  const Plan* best = &plan;  // of those under which all replicas learn the same
  for (const PlannedMethod& each : all) {
    if (PromisesEqualReplicas(each.inputs.config) && HeldShare(each.plan) < HeldShare(*best))
      best = &each.plan;
  }
  if (HeldShare(*best) < HeldShare(plan) / 2) {
    return absl::StrCat("--set preset=", best->method, ": syncs take ", Percent(HeldShare(*best)),
                        " of a round instead of ", Percent(HeldShare(plan)),
                        "; loss: ", EvidenceOf(best->method));
  }
  if (rate == 0) {
    return absl::StrCat(
        "a faster machine for what binds, or longer steps (train.batch): syncs "
        "take ",
        Percent(HeldShare(plan)), " of a round");
  }
  LONGWAVE_ASSIGN_OR_RETURN(const Plan changed, WithLink(inputs, part, 2 * rate));
  return absl::StrFormat("%g Mbit/s instead of %g there: syncs take %s of a round instead of %s",
                         2 * rate * 8 / 1e6, rate * 8 / 1e6, Percent(HeldShare(changed)),
                         Percent(HeldShare(plan)));
}

}  // namespace longwave
