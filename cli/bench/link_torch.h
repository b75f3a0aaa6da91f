#ifndef LONGWAVE_CLI_BENCH_LINK_TORCH_H_
#define LONGWAVE_CLI_BENCH_LINK_TORCH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/bench/link_network.h"
#include "common/config/run_config.h"

namespace longwave {

// The text of python/ddp_baseline.py, as it was when this program was built.
std::string_view DdpBaselineScript();

// What PyTorch's DistributedDataParallel over gloo did with the same model and links.
struct TorchRun {
  std::vector<double> step_seconds;                      // in order
  std::vector<InterfaceBytes> step_bytes;                // at rank 0's data link
  std::vector<std::pair<uint64_t, double>> validations;  // step, loss
  bool reached = false;                                  // the target
  uint64_t steps = 0;                                    // taken, or needed if it was reached

  // Means over the steps but the first, in which the reducer finds its buckets; 0: there are none.
  double SecondsPerStep() const;
  double BytesUpPerStep() const;
  double BytesDownPerStep() const;
};

struct TorchRunOptions {
  const LinkNetwork* network = nullptr;
  RunConfig config;  // of the run that it is compared with; workers are ranks
  uint64_t parameters = 0;
  std::string python;  // a Python that has torch
  std::string folder;  // for the script and logs
  std::string name;
  uint64_t steps = 0;
  uint64_t validate_every = 0;  // steps; 0: never
  double target = 0;            // ends at this validation loss, if it validates
  double timeout_s = 120;       // of a collective: a peer that is gone is an error then
  int interrupt_fd = -1;
};

// Runs a rank at every worker of the network. Cancelled: an interrupt. Unavailable: the Python
// cannot be run or has no torch. Aborted: a rank failed, and its last words.
absl::StatusOr<TorchRun> RunTorchDdp(const TorchRunOptions& options);

// Takes in a line that the script has written. DataLoss: it is none of its lines.
absl::Status TakeTorchLine(const std::string& line, TorchRun* run);

}  // namespace longwave

#endif  // LONGWAVE_CLI_BENCH_LINK_TORCH_H_
