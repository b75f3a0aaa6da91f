#include "tests/bench/link/figures.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/layout/layout.h"
#include "common/wire/elias_fano.h"

namespace longwave {
namespace {

constexpr uint32_t kTile = 4096;
constexpr double kRelativeShareMin = 0.97;
constexpr double kRatioOffMax = 0.03;
constexpr double kFasterThanTorchMin = 20;

Verdict MetIf(bool met) { return met ? Verdict::kMet : Verdict::kNotMet; }

LinkBar ShareBar(const LinkFigures& figures, const LinkRun& run) {
  LinkBar bar{.name = absl::StrFormat("compute share at %g Mbit/s", run.mbit),
              .wanted = "at least 97 % of the unshaped run's"};
  const LinkRun* unshaped = figures.RunAt(0);
  if (unshaped == nullptr || ComputeShare(*unshaped) <= 0) return bar;
  const double relative = ComputeShare(run) / ComputeShare(*unshaped);
  bar.measured = absl::StrFormat("%.1f %% (%.1f %% of %.1f %%)", 100 * relative,
                                 100 * ComputeShare(run), 100 * ComputeShare(*unshaped));
  bar.verdict = MetIf(relative >= kRelativeShareMin);
  return bar;
}

LinkBar BytesBar(const LinkFigures& figures, bool up) {
  const SyncSection& sync = figures.config.sync;
  LinkBar bar{.name = absl::StrCat("bytes ", up ? "up" : "down", " at the interface, MTU ",
                                   figures.mtu, figures.loss_probes ? "" : ", no loss probes"),
              .wanted = absl::StrFormat("within 3 %% of %.4f B/parameter/round",
                                        PayloadBytesPerParameter(up ? sync.up : sync.down))};
  if (figures.runs.empty()) return bar;
  // The worst worker of all runs, and the part of its distance that is packets' headers:
  // acknowledgements of the other direction are packets, too.
  double worst = 1, headers = 0;
  for (const LinkRun& run : figures.runs) {
    const double payload = static_cast<double>(run.status.parameters) * run.rounds() *
                           PayloadBytesPerParameter(up ? sync.up : sync.down);
    for (const LinkWorker& worker : run.workers) {
      const double own =
          static_cast<double>(up ? worker.data.sent : worker.data.received) / payload;
      if (std::abs(own - 1) < std::abs(worst - 1)) continue;
      worst = own;
      headers = static_cast<double>(up ? worker.data.packets_sent : worker.data.packets_received) *
                kPacketHeaderBytes / payload;
    }
  }
  bar.measured = absl::StrFormat("%+.2f %% (of which packets' headers %.2f %%; worst worker)",
                                 100 * (worst - 1), 100 * headers);
  bar.verdict = MetIf(std::abs(worst - 1) <= kRatioOffMax);
  return bar;
}

LinkBar BaselineBar(const LinkFigures& figures, const LinkBaseline& baseline, double times_min) {
  const double mbit = figures.SlowestRate();
  LinkBar bar{
      .name = absl::StrFormat("to the same loss at %g Mbit/s, against %s", mbit, baseline.name),
      .wanted = times_min > 1 ? absl::StrFormat("at least %g times faster", times_min) : "faster"};
  const std::optional<double> theirs = SecondsToTarget(baseline, mbit);
  const std::optional<double> ours = figures.SecondsToTargetAt(mbit);
  if (!theirs.has_value() || !ours.has_value() || *ours <= 0) {
    bar.measured = baseline.why_not_measured;
    return bar;
  }
  const double times = *theirs / *ours;
  const char* more = baseline.at_least ? "more than " : "";
  bar.measured =
      absl::StrFormat("%s%.1f times (%s%.0f s, ours %.0f s)", more, times, more, *theirs, *ours);
  // A lower bound that does not suffice says nothing.
  if (times >= times_min && times > 1) {
    bar.verdict = Verdict::kMet;
  } else if (!baseline.at_least) {
    bar.verdict = Verdict::kNotMet;
  }
  return bar;
}

}  // namespace

double PayloadBytesPerParameter(const PayloadFormat& format) {
  const bool all = format.selection == Selection::kAll;
  double bytes = (all ? kTile : format.k) * ValueBits(format.codec) / 8.0;
  if (HasScale(format.codec)) bytes += 2;
  if (format.selection == Selection::kTopK) {
    bytes += static_cast<double>(EliasFanoBytes(kTile, format.k));
  }
  return bytes / kTile;
}

double ComputeShare(const LinkRun& run, const LinkWorker& worker) {
  const double seconds = run.SecondsUnvalidated();
  return seconds > 0 ? worker.seconds_computing / seconds : 0;
}

double ComputeShare(const LinkRun& run) {
  double sum = 0;
  for (const LinkWorker& worker : run.workers) sum += ComputeShare(run, worker);
  return run.workers.empty() ? 0 : sum / static_cast<double>(run.workers.size());
}

std::optional<double> LossAtEnd(const RunStatus& status) {
  for (auto record = status.records.rbegin(); record != status.records.rend(); ++record) {
    if (record->validation_loss.has_value()) return record->validation_loss;
  }
  return std::nullopt;
}

const RoundRecord* FirstAtTarget(const RunStatus& status, double target) {
  for (const RoundRecord& record : status.records) {
    if (record.validation_loss.has_value() && *record.validation_loss <= target) return &record;
  }
  return nullptr;
}

std::optional<double> ComputeShareAt(const LinkRun& run, const LinkRates& rates, double mbit) {
  double begin = 0, computing = 0, total = 0;
  for (const RoundRecord& record : run.status.records) {
    const double seconds = record.seconds - std::exchange(begin, record.seconds);
    if (rates.At(record.seconds - seconds / 2) != mbit) continue;
    computing += seconds * record.compute_share;
    total += seconds;
  }
  return total > 0 ? std::optional(computing / total) : std::nullopt;
}

std::optional<double> SecondsOfRounds(const LinkRun& run, uint64_t rounds) {
  const std::vector<RoundRecord>& records = run.status.records;
  if (rounds == 0 || rounds > records.size()) return std::nullopt;
  return rounds == records.size() ? run.SecondsUnvalidated() : records[rounds - 1].seconds;
}

std::optional<double> SecondsToTarget(const LinkBaseline& baseline, double mbit) {
  if (!baseline.units.has_value()) return std::nullopt;
  for (const LinkBaseline::Rate& rate : baseline.rates) {
    if (rate.mbit == mbit && rate.seconds_per_unit > 0) {
      return static_cast<double>(*baseline.units) * rate.seconds_per_unit;
    }
  }
  return std::nullopt;
}

const LinkRun* LinkFigures::RunAt(double mbit) const {
  const auto found = std::find_if(runs.begin(), runs.end(),
                                  [mbit](const LinkRun& run) { return run.mbit == mbit; });
  return found == runs.end() ? nullptr : &*found;
}

double LinkFigures::SlowestRate() const {
  double slowest = 0;
  for (const LinkRun& run : runs) {
    if (run.mbit > 0 && (slowest == 0 || run.mbit < slowest)) slowest = run.mbit;
  }
  return slowest;
}

std::optional<double> LinkFigures::SecondsToTargetAt(double mbit) const {
  const LinkRun* run = RunAt(mbit);
  if (run == nullptr || !rounds_to_target.has_value()) return std::nullopt;
  return SecondsOfRounds(*run, *rounds_to_target);
}

std::vector<LinkBar> Bars(const LinkFigures& figures) {
  std::vector<LinkBar> bars;
  for (const LinkRun& run : figures.runs) {
    if (run.mbit > 0) bars.push_back(ShareBar(figures, run));
  }
  bars.push_back(BytesBar(figures, /*up=*/true));
  bars.push_back(BytesBar(figures, /*up=*/false));
  for (const LinkBaseline& baseline : figures.baselines) {
    const bool torch = baseline.name == "torch-ddp";
    bars.push_back(BaselineBar(figures, baseline, torch ? kFasterThanTorchMin : 1));
  }
  return bars;
}

}  // namespace longwave
