#include "cli/plan/report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/json_text.h"
#include "common/base/figures.h"

namespace longwave {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kHour = 3600;

// H within the bounds in which a run would choose it.
std::string AutoOf(const Plan& plan) {
  if (!plan.wanted_inner_steps) return "the method fixes H";
  const double chosen = *plan.auto_inner_steps;
  if (*plan.wanted_inner_steps <= chosen) return absl::StrFormat("auto takes H %.0f", chosen);
  return absl::StrFormat("auto takes H %.0f, its most; %.0f would reach the target", chosen,
                         *plan.wanted_inner_steps);
}

std::string BytesText(const Plan& plan) {
  const char* most = plan.down_is_a_bound ? "at most " : "";
  const double hourly = kHour / plan.round_s;
  return absl::StrCat(
      "up ", FormatBytes(plan.round.up), ", down ", most, FormatBytes(plan.round.down),
      " a round and worker; ", FormatBytes(hourly * plan.round.up), ", ",
      FormatBytes(hourly * plan.round.down), " an hour; all workers ", FormatBytes(plan.run.up),
      ", ", FormatBytes(plan.run.down), " the run",
      plan.snapshot_bytes > 0
          ? absl::StrCat(", of which snapshots up at most ", FormatBytes(plan.snapshot_bytes))
          : "");
}

Json BytesJson(const PlanBytes& bytes, double times = 1) {
  return {{"up", times * bytes.up}, {"down", times * bytes.down}};
}

Json MethodJson(const MethodReport& method) {
  const Plan& plan = method.plan;
  Json parts = Json::array();
  for (const PlanPart& part : plan.parts)
    parts.push_back({{"part", Name(part)}, {"seconds", part.seconds}});
  return {{"method", plan.method},
          {"parameters", plan.parameters},
          {"segments", plan.segments},
          {"workers", plan.workers},
          {"inner_steps", plan.inner_steps},
          {"auto_inner_steps", NumberOrNull(plan.auto_inner_steps)},
          {"rounds", plan.rounds},
          {"steps", plan.steps},
          {"tokens", plan.tokens},
          {"bytes_round_worker", BytesJson(plan.round)},
          {"bytes_hour_worker", BytesJson(plan.round, kHour / plan.round_s)},
          {"bytes_run", BytesJson(plan.run)},
          {"bytes_down_are_a_bound", plan.down_is_a_bound},
          {"snapshot_bytes_run", plan.snapshot_bytes},
          {"sync_parts", std::move(parts)},
          {"sync_seconds", plan.sync_s},
          {"hidden_seconds", plan.hidden_s},
          {"round_seconds", plan.round_s},
          {"compute_share", plan.compute_share},
          {"run_seconds", plan.run_s},
          {"worker_memory_bytes", plan.worker_memory_bytes},
          {"worker_gpu_memory_bytes", plan.worker_gpu_memory_bytes},
          {"worker_host_memory_bytes", plan.worker_host_memory_bytes},
          {"worker_disk_bytes", plan.worker_disk_bytes},
          {"shard_memory_bytes", plan.shard_memory_bytes},
          {"shard_disk_bytes", plan.shard_disk_bytes},
          {"price", NumberOrNull(plan.price)},
          {"binds", method.binds},
          {"change", method.change},
          {"loss", method.loss}};
}

std::string RatesFrom(const PlanReport& report) {
  return absl::StrCat("formula; inner steps ", report.steps_from, ", links ", report.links_from,
                      ", kernels ", report.kernels_from, ", disk ", report.disk_from);
}

}  // namespace

std::string PlanText(const PlanReport& report) {
  std::string text;
  for (const MethodReport& method : report.methods) {
    const Plan& plan = method.plan;
    std::vector<std::string> parts;
    for (const PlanPart& part : plan.parts)
      if (part.seconds >= 0.005)
        parts.push_back(absl::StrFormat("%s %.2f", Name(part), part.seconds));
    absl::StrAppendFormat(&text, "%s, H %.0f: %s parameters in %d segments, %d workers\n",
                          plan.method, plan.inner_steps, FormatCount(plan.parameters),
                          plan.segments, plan.workers);
    absl::StrAppend(&text, "  bytes    ", BytesText(plan), "\n");
    absl::StrAppendFormat(&text, "  sync     %.2f s, of which an overlap hides %.2f s; busy: %s\n",
                          plan.sync_s, plan.hidden_s, absl::StrJoin(parts, ", "));
    absl::StrAppendFormat(&text, "  compute  %.1f %% of a round of %.1f s; %s\n",
                          100 * plan.compute_share, plan.round_s, AutoOf(plan));
    absl::StrAppend(&text, "  memory   worker ", FormatBytes(plan.worker_memory_bytes),
                    " (on a GPU ", FormatBytes(plan.worker_gpu_memory_bytes), ", and ",
                    FormatBytes(plan.worker_host_memory_bytes), " beside it), shard at least ",
                    FormatBytes(plan.shard_memory_bytes), "; disk: worker ",
                    FormatBytes(plan.worker_disk_bytes), ", shard ",
                    FormatBytes(plan.shard_disk_bytes), "\n");
    absl::StrAppendFormat(&text, "  run      %.0f rounds, %s tokens: %s%s\n", plan.rounds,
                          FormatCount(plan.tokens), FormatDuration(plan.run_s),
                          plan.price ? absl::StrFormat(", price %.2f", *plan.price) : "");
    absl::StrAppend(&text, "  loss     ", method.loss, "\n  binds    ", method.binds,
                    "\n  change   ", method.change, "\n\n");
  }
  for (const std::string& sentence : report.left_out)
    absl::StrAppend(&text, "left out: ", sentence, "\n");
  if (!report.run_seconds.empty())
    absl::StrAppend(&text, "The run itself, seconds a round and worker: ", report.run_seconds,
                    ".\n");
  absl::StrAppend(&text,
                  "Bytes: formula, the sizes of payloads and frames at the sockets. "
                  "Seconds and price: ",
                  RatesFrom(report), ". Memory and disk: formula",
                  report.has_activations ? "" : ", without a step's activations",
                  ". Not in it: TCP's headers and what it sends twice, control, the coordinator, "
                  "validation, joiners and restarts.\n");
  return text;
}

std::string PlanJson(const PlanReport& report) {
  Json methods = Json::array();
  for (const MethodReport& method : report.methods) methods.push_back(MethodJson(method));
  return JsonText(
      {{"methods", std::move(methods)},
       {"left_out", report.left_out},
       {"target_share", report.target_share},
       {"run_seconds", report.run_seconds},
       {"basis",
        {{"bytes", "formula"},
         {"seconds", RatesFrom(report)},
         {"price", RatesFrom(report)},
         {"memory", report.has_activations ? "formula" : "formula, without activations"},
         {"loss", "measured: the row that `loss` names"}}}});
}

}  // namespace longwave
