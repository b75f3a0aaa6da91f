#ifndef LONGWAVE_CLI_BENCH_LINK_BENCH_H_
#define LONGWAVE_CLI_BENCH_LINK_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"

namespace CLI {
class App;
}

namespace longwave {

// `longwave bench link`: a real training run over links of a given rate and delay, beside other
// ways to train the same model over the same links.
struct BenchLinkOptions {
  std::string config_file;                // empty: a GPT of 10 M parameters, or of 1 M if quick
  std::vector<std::string> overrides;     // key=value
  std::string data;                       // stands for data.path, if given
  std::vector<double> rates = {10, 100};  // Mbit/s
  double delay_ms = 0;                    // of every byte, either way; ours alone, not PyTorch's
  uint32_t mtu = 9000;                    // of the data links
  bool no_loss_probes = false;            // of TCP, on every node
  uint32_t rounds = 8;                    // of every run of the preset, the unshaped one too
  double target_loss = 0;                 // 0: that at the end of the runs
  std::vector<std::string> baselines = {"torch-ddp", "ddp", "diloco"};
  std::string torch_python;  // a Python that has torch; empty: torch-ddp is not measured
  uint64_t ddp_steps = 0;    // that PyTorch DDP needs to the target; 0: measured here
  bool quick = false;
  bool keep_state = false;  // of the runs of ours: as `longwave up` does
  std::string runs_dir = "runs";
  std::string json_file;  // where the figures go as JSON; empty: nowhere
};

// Gives `command` the flags that fill in `options`, which outlives it.
void AddBenchLinkFlags(CLI::App* command, BenchLinkOptions* options);

// Returns the process's exit status: 0 if everything that was asked for has run, whatever the
// figures; 128 and the signal if one came.
int RunBenchLink(const BenchLinkOptions& options);

// The run that is measured, whole and checked. Its learning rate is constant after the warm-up, so
// that runs of different lengths begin alike.
absl::StatusOr<RunConfig> LinkBenchConfig(const BenchLinkOptions& options);

// The same model, data and inner optimizer, trained by another preset with as many inner steps
// between syncs, if it has any.
absl::StatusOr<RunConfig> WithPreset(const RunConfig& config, const std::string& preset);

}  // namespace longwave

#endif  // LONGWAVE_CLI_BENCH_LINK_BENCH_H_
