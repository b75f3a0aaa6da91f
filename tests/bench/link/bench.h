#ifndef LONGWAVE_TESTS_BENCH_LINK_BENCH_H_
#define LONGWAVE_TESTS_BENCH_LINK_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"

namespace longwave {

// `bench_link`: a real training run over links of a given rate, beside other ways to train the same
// model over the same links.
struct BenchLinkOptions {
  std::vector<std::string> overrides;     // key=value
  std::string data;                       // stands for data.path, if given
  std::vector<double> rates = {10, 100};  // Mbit/s
  uint32_t mtu = 9000;                    // of the data links
  bool no_loss_probes = false;            // of TCP, on every node
  uint32_t rounds = 8;                    // of every run of the preset, the unshaped one too
  std::vector<std::string> baselines = {"torch-ddp", "ddp", "diloco"};
  std::vector<std::string> intervals;  // of runs over links that change, in place of all else
  double alternate_s = 180;            // until the links change
  std::string torch_python;            // a Python with torch; empty: PyTorch is not measured
  bool quick = false;                  // a GPT of 1 M parameters instead of 10 M
  bool keep_state = false;             // of the runs of ours: as `longwave up` does
  std::string runs_dir = "runs";
  std::string json_file;  // file of the figures as JSON; empty: none
};

// Returns the process's exit status: 0 if everything requested has run, whatever the figures; 128
// plus the signal's number after a signal.
int RunBenchLink(const BenchLinkOptions& options);

// The run that is measured, whole and checked. The learning rate is constant after the warm-up, so
// that runs of different lengths begin alike.
absl::StatusOr<RunConfig> LinkBenchConfig(const BenchLinkOptions& options);

// The same model, data and inner optimizer, trained by another preset with as many inner steps
// between syncs, if it has any.
absl::StatusOr<RunConfig> WithPreset(const RunConfig& config, const std::string& preset);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_LINK_BENCH_H_
