#ifndef LONGWAVE_TESTS_BENCH_LINK_FIGURES_H_
#define LONGWAVE_TESTS_BENCH_LINK_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/control/control.h"
#include "common/wire/codec.h"
#include "tests/bench/link/run.h"
#include "tests/bench/verdict.h"

namespace longwave {

// Figures computed from runs over links. Nothing here measures.

// Bytes a parameter, round and way by the payload's formula: tiles of 4096 coefficients, each with
// its indices, its values and, if values are narrow, its scale. 0.0181 for k 64 and 1 bit.
double PayloadBytesPerParameter(const PayloadFormat& format);

// A worker's share of its run's wall time that it spent computing; the validation at the run's end
// is no part of that time.
double ComputeShare(const LinkRun& run, const LinkWorker& worker);
// Mean over the run's workers.
double ComputeShare(const LinkRun& run);

// The loss of the last round that was validated.
std::optional<double> LossAtEnd(const RunStatus& status);
// The first round whose validation loss is at most `target`.
const RoundRecord* FirstAtTarget(const RunStatus& status, double target);
// Rates of links that change every so many seconds of a run.
struct LinkRates {
  double first = 0, second = 0;  // Mbit/s
  double seconds = 1;
  double At(double second_of_run) const {
    return static_cast<uint64_t>(second_of_run / seconds) % 2 == 0 ? first : second;
  }
};
// The members' compute share in the rounds whose middle the links had this rate in; nothing: there
// was none.
std::optional<double> ComputeShareAt(const LinkRun& run, const LinkRates& rates, double mbit);

// Seconds of the first `rounds` rounds without validation, for a run that validates only at its
// end. Nothing if the run has fewer rounds.
std::optional<double> SecondsOfRounds(const LinkRun& run, uint64_t rounds);

// Another way to train the same model: the time of a step or round over a link, and the number of
// them that an unshaped run needs until the target.
struct LinkBaseline {
  std::string name;  // "torch-ddp", "ddp", "diloco"
  std::string unit;  // "step", "round"
  std::optional<uint64_t> units;
  bool at_least = false;  // the unshaped run ended before the target: `units` is a lower bound
  struct Rate {
    double mbit = 0;
    double seconds_per_unit = 0;
    // At a worker's data link, mean over workers; nothing where no kernel has counted them.
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
  uint32_t mtu = 0;         // of the data links
  bool loss_probes = true;  // of TCP
  bool keeps_state = false;
  absl::Time begun;
  std::vector<LinkRun> runs;  // of config's preset, all of the same length, in the order they ran
  std::optional<double> target_loss;
  std::optional<uint64_t> rounds_to_target;  // needed by the preset; nothing: not reached
  std::string failure;                       // why the measurement ended early; empty: it did not
  std::vector<LinkBaseline> baselines;

  const LinkRun* RunAt(double mbit) const;
  double SlowestRate() const;  // of the preset's runs
  // Our time to the target at this rate; nothing where it was not measured or not reached.
  std::optional<double> SecondsToTargetAt(double mbit) const;
};

std::vector<LinkBar> Bars(const LinkFigures& figures);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_LINK_FIGURES_H_
