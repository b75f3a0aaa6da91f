#include "tests/bench/link/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/figures.h"

namespace longwave {
namespace {

using Json = nlohmann::ordered_json;

std::string RateName(double mbit) {
  return mbit > 0 ? absl::StrFormat("%g Mbit/s", mbit) : std::string("unshaped");
}

// A figure, or null where there is none.
Json OrNull(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json();
}

// A worker's share relative to the same worker's in the unshaped run; nothing without one.
std::optional<double> RelativeShare(const LinkRun& run, const LinkWorker& worker,
                                    const LinkRun* unshaped) {
  if (unshaped == nullptr) return std::nullopt;
  for (const LinkWorker& other : unshaped->workers) {
    const double share = ComputeShare(*unshaped, other);
    if (other.name == worker.name && share > 0) return ComputeShare(run, worker) / share;
  }
  return std::nullopt;
}

Json WorkerJson(const LinkRun& run, const LinkWorker& worker, const LinkRun* unshaped) {
  return {{"name", worker.name},
          {"compute_share", ComputeShare(run, worker)},
          {"relative_compute_share", OrNull(RelativeShare(run, worker, unshaped))},
          {"seconds_computing", worker.seconds_computing},
          {"seconds_syncing", worker.seconds_syncing},
          {"data_bytes_up", worker.data.sent},
          {"data_bytes_down", worker.data.received},
          {"data_packets_up", worker.data.packets_sent},
          {"data_packets_down", worker.data.packets_received},
          {"socket_bytes_up", worker.sockets.pushed},
          {"socket_bytes_down", worker.sockets.pulled},
          {"payload_bytes_up", worker.sockets.payload_pushed},
          {"payload_bytes_down", worker.sockets.payload_pulled},
          {"control_bytes_up", worker.control.sent},
          {"control_bytes_down", worker.control.received},
          {"segments_sent_again", worker.segments_sent_again}};
}

Json RunJson(const LinkFigures& figures, const LinkRun& run) {
  const LinkRun* unshaped = figures.RunAt(0);
  Json workers = Json::array(), curve = Json::array();
  for (const LinkWorker& worker : run.workers) workers.push_back(WorkerJson(run, worker, unshaped));
  for (const RoundRecord& record : run.status.records) {
    curve.push_back({{"round", record.round},
                     {"step", record.step},
                     {"seconds", record.seconds},
                     {"validation_loss", OrNull(record.validation_loss)},
                     {"compute_share", record.compute_share}});
  }
  return {{"preset", run.preset},
          {"mbit", run.mbit},
          {"rounds", run.status.records.size()},
          {"seconds", run.SecondsUnvalidated()},
          {"seconds_with_validation", run.seconds()},
          {"seconds_per_round", run.rounds() > 0 ? run.SecondsUnvalidated() / run.rounds() : 0},
          {"compute_share", ComputeShare(run)},
          {"replicas_equal", run.status.replicas_equal},
          {"state_hash", FormatHash(run.status.state_hash)},
          {"seconds_to_target", OrNull(figures.SecondsToTargetAt(run.mbit))},
          {"workers", std::move(workers)},
          {"curve", std::move(curve)}};
}

Json BaselineJson(const LinkBaseline& baseline) {
  Json rates = Json::array();
  for (const LinkBaseline::Rate& rate : baseline.rates) {
    rates.push_back({{"mbit", rate.mbit},
                     {"seconds_per_unit", rate.seconds_per_unit},
                     {"data_bytes_up_per_unit", OrNull(rate.bytes_up_per_unit)},
                     {"data_bytes_down_per_unit", OrNull(rate.bytes_down_per_unit)},
                     {"seconds_to_target", OrNull(SecondsToTarget(baseline, rate.mbit))}});
  }
  return {{"name", baseline.name},
          {"unit", baseline.unit},
          {"units_to_target", baseline.units.has_value() ? Json(*baseline.units) : Json()},
          {"units_are_a_lower_bound", baseline.at_least},
          {"not_measured", baseline.why_not_measured},
          {"rates", std::move(rates)}};
}

// The commit of the source now, with a "+" if there are changes beside it; "unknown" where git does
// not know.
std::string Commit() {
  constexpr char kCommand[] = "git --no-optional-locks -C " LONGWAVE_SOURCE_DIR
                              " describe --always --dirty=+ --abbrev=12 --exclude='*' 2>/dev/null";
  char line[64] = "";
  if (FILE* git = popen(kCommand, "r")) {
    (void)!std::fgets(line, sizeof line, git);
    pclose(git);
  }
  const absl::string_view commit = absl::StripAsciiWhitespace(line);
  return commit.empty() ? "unknown" : std::string(commit);
}

}  // namespace

std::string DescribeRun(const LinkRun& run, const SyncSection& sync, const LinkRun* unshaped) {
  const std::optional<double> loss = LossAtEnd(run.status);
  std::string text = absl::StrFormat(
      "%s, %s: %.0f rounds in %.1f s (%.2f s a round), validation loss %s, replicas %s\n",
      run.preset, RateName(run.mbit), run.rounds(), run.SecondsUnvalidated(),
      run.rounds() > 0 ? run.SecondsUnvalidated() / run.rounds() : 0,
      loss.has_value() ? absl::StrFormat("%.3f", *loss) : "unknown",
      run.status.replicas_equal ? "equal" : "DIFFER");
  const double formula_up = PayloadBytesPerParameter(sync.up);
  const double formula_down = PayloadBytesPerParameter(sync.down);
  const double scale = static_cast<double>(run.status.parameters) * run.rounds();
  absl::StrAppendFormat(&text,
                        "  %-10s %9s %9s   bytes/parameter/round, up: interface, sockets, formula; "
                        "down: the same; control bytes; segments that TCP sent again\n",
                        "worker", "computes", "relative");
  for (const LinkWorker& worker : run.workers) {
    const std::optional<double> relative = RelativeShare(run, worker, unshaped);
    absl::StrAppendFormat(
        &text, "  %-10s %7.1f %% %9s   %.5f %.5f %.5f   %.5f %.5f %.5f   %d up, %d down; %d\n",
        worker.name, 100 * ComputeShare(run, worker),
        relative.has_value() ? absl::StrFormat("%.1f %%", 100 * *relative) : std::string("-"),
        worker.data.sent / scale, worker.sockets.pushed / scale, formula_up,
        worker.data.received / scale, worker.sockets.pulled / scale, formula_down,
        worker.control.sent, worker.control.received, worker.segments_sent_again);
  }
  return text;
}

std::string DescribeInterval(std::string_view interval, const LinkRun& run,
                             const LinkRates& rates) {
  const RunStatus& status = run.status;
  const uint64_t steps = status.records.empty() ? 0 : status.records.back().step;
  std::string text = absl::StrFormat(
      "H %s: %d steps in %.0f rounds and %.1f s, validation loss %s; compute share %.1f %%",
      interval, steps, run.rounds(), run.SecondsUnvalidated(), FormatLoss(LossAtEnd(status)),
      100 * ComputeShare(run));
  for (const double mbit : {rates.first, rates.second}) {
    const std::optional<double> share = ComputeShareAt(run, rates, mbit);
    if (share) absl::StrAppendFormat(&text, ", at %s %.1f %%", RateName(mbit), 100 * *share);
  }
  if (status.interval) {
    absl::StrAppendFormat(&text, "; %d changes of H, %d in the end", status.interval->changes,
                          status.interval->inner_steps);
  }
  return text + "\n";
}

std::string DescribeBaseline(const LinkBaseline& baseline) {
  std::string text = absl::StrCat(baseline.name, ":");
  if (!baseline.why_not_measured.empty()) {
    absl::StrAppend(&text, " not measured: ", baseline.why_not_measured, "\n");
    if (baseline.rates.empty()) return text;
  }
  if (baseline.units.has_value()) {
    absl::StrAppend(&text, " ", baseline.at_least ? "more than " : "", *baseline.units, " ",
                    baseline.unit, "s to the target");
  }
  absl::StrAppend(&text, "\n");
  for (const LinkBaseline::Rate& rate : baseline.rates) {
    absl::StrAppendFormat(&text, "  %-12s %8.2f s a %s", RateName(rate.mbit), rate.seconds_per_unit,
                          baseline.unit);
    if (rate.bytes_up_per_unit.has_value() && rate.bytes_down_per_unit.has_value()) {
      absl::StrAppendFormat(&text, ", %.3f MB up and %.3f MB down at a worker's interface",
                            *rate.bytes_up_per_unit / 1e6, *rate.bytes_down_per_unit / 1e6);
    }
    if (const std::optional<double> seconds = SecondsToTarget(baseline, rate.mbit)) {
      absl::StrAppendFormat(&text, ": %s%.0f s to the target",
                            baseline.at_least ? "more than " : "", *seconds);
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string DescribeEnd(const LinkFigures& figures) {
  std::string text = "\n";
  for (const LinkBar& bar : Bars(figures)) {
    absl::StrAppend(&text, std::string(Name(bar.verdict)), ": ", bar.name, ": ",
                    bar.measured.empty() ? "-" : bar.measured, ", wanted ", bar.wanted, "\n");
  }
  return text;
}

std::string LinkJson(const LinkFigures& figures) {
  const RunConfig& config = figures.config;
  Json runs = Json::array(), baselines = Json::array(), bars = Json::array();
  for (const LinkRun& run : figures.runs) runs.push_back(RunJson(figures, run));
  for (const LinkBaseline& baseline : figures.baselines) {
    baselines.push_back(BaselineJson(baseline));
  }
  for (const LinkBar& bar : Bars(figures)) {
    bars.push_back({{"name", bar.name},
                    {"wanted", bar.wanted},
                    {"measured", bar.measured},
                    {"verdict", Name(bar.verdict)}});
  }
  const Json json = {
      {"bench", "link"},
      {"date", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", figures.begun, absl::UTCTimeZone())},
      {"commit", Commit()},
      {"failure", figures.failure},
      {"cores", std::thread::hardware_concurrency()},
      {"preset", config.run.preset},
      {"parameters", figures.parameters},
      {"workers", config.run.workers},
      {"shards", config.run.shards},
      {"inner_steps", config.sync.inner_steps},
      {"overlap", config.sync.overlap},
      {"fragments", config.sync.fragments},
      {"batch", config.train.batch},
      {"context", config.model.context},
      {"mtu", figures.mtu},
      {"loss_probes", figures.loss_probes},
      {"state_kept", figures.keeps_state},
      {"offload_bytes_max", LinkNetwork::kOffloadBytesMax},
      {"formula",
       {{"up", PayloadBytesPerParameter(config.sync.up)},
        {"down", PayloadBytesPerParameter(config.sync.down)}}},
      {"target_loss", OrNull(figures.target_loss)},
      {"rounds_to_target",
       figures.rounds_to_target.has_value() ? Json(*figures.rounds_to_target) : Json()},
      {"runs", std::move(runs)},
      {"baselines", std::move(baselines)},
      {"bars", std::move(bars)}};
  // A sentence may quote bytes of the outside world that are no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace longwave
