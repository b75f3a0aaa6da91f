#ifndef LONGWAVE_CLI_BENCH_LINK_FIGURES_H_
#define LONGWAVE_CLI_BENCH_LINK_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/link_run.h"
#include "cli/bench/verdict.h"
#include "common/config/run_config.h"
#include "common/wire/codec.h"
#include "common/wire/control.h"

namespace longwave {

// What is worked out from runs over links. Nothing here measures.

// Bytes a parameter, round and way by the payload's formula: tiles of 4096 coefficients, each with
// its indices, its values and, if values are narrow, its scale. 0.0181 for k 64 and 1 bit.
double PayloadBytesPerParameter(const PayloadFormat& format);

// A worker's share of its run's wall time that it spent computing.
double ComputeShare(const LinkRun& run, const LinkWorker& worker);
// Mean over the run's workers.
double ComputeShare(const LinkRun& run);

// The lowest validation loss of a run; nothing if it has none.
std::optional<double> LowestLoss(const RunStatus& status);
// The first round whose validation loss is at most `target`.
const RoundRecord* FirstAtTarget(const RunStatus& status, double target);

// Measured bytes over those of the formula, for the worker that is farthest from it.
struct FormulaRatio {
  double up = 0, down = 0;
};
FormulaRatio WorstRatio(const LinkRun& run, const SyncSection& sync, bool at_interface);

// Another way to train the same model: what a step or round takes over a link, and how many an
// unshaped run needs until the target.
struct LinkBaseline {
  std::string name;    // "torch-ddp", "ddp", "diloco"
  std::string unit;    // "step", "round"
  std::string origin;  // of `units`: "measured", "given by --ddp-steps"
  std::optional<uint64_t> units;
  bool at_least = false;  // the unshaped run ended before the target: `units` is a lower bound
  struct Rate {
    double mbit = 0;
    double seconds_per_unit = 0;
    // At a worker's data link, mean over workers; nothing for a run that was ended amid a unit.
    std::optional<double> bytes_up_per_unit, bytes_down_per_unit;
  };
  std::vector<Rate> rates;
  std::string why_not_measured;  // a sentence; empty if it was
};

// Seconds to the target over the link of this rate; nothing where it was not measured.
std::optional<double> SecondsToTarget(const LinkBaseline& baseline, double mbit);

struct LinkBar {
  std::string name;
  std::string wanted;
  std::string measured;
  Verdict verdict = Verdict::kNotMeasured;
};

// Everything that the command has found.
struct LinkFigures {
  RunConfig config;
  uint64_t parameters = 0;
  absl::Duration delay;
  uint32_t mtu = 0;           // of the data links
  std::vector<LinkRun> runs;  // of config's preset: the unshaped one, then by falling rate
  std::optional<double> target_loss;
  std::vector<LinkBaseline> baselines;

  const LinkRun* RunAt(double mbit) const;
  // The lowest rate, at which the preset has run its full length.
  double SlowestRate() const;
};

std::vector<LinkBar> Bars(const LinkFigures& figures);

}  // namespace longwave

#endif  // LONGWAVE_CLI_BENCH_LINK_FIGURES_H_
