#ifndef LONGWAVE_TESTS_BENCH_LINK_TORCH_H_
#define LONGWAVE_TESTS_BENCH_LINK_TORCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "tests/bench/link/network.h"

namespace longwave {

// The results of PyTorch over gloo (ddp_baseline.py) with the same model and links.
struct TorchRun {
  std::vector<double> step_seconds;        // in order
  std::vector<InterfaceBytes> step_bytes;  // at worker 0's data link
  bool reached = false;                    // the target
  uint64_t steps = 0;                      // taken, or needed if it was reached

  // Means over all steps but the first, in which the reducer finds its buckets; 0: no steps.
  double SecondsPerStep() const;
  double BytesUpPerStep() const;
  double BytesDownPerStep() const;
};

struct TorchRunOptions {
  const LinkNetwork* network = nullptr;
  RunConfig config;  // the run to compare with
  uint64_t parameters = 0;
  std::string python;  // a Python that has torch
  std::string folder;  // for logs
  std::string name;
  uint64_t steps = 0;
  uint64_t validate_every = 0;  // steps; 0: never
  double target = 0;            // ends at this validation loss, if it validates
  double timeout_s = 120;       // of a collective; a dead peer then causes an error
  int interrupt_fd = -1;
};

// Runs a rank at each worker of the network. Cancelled: an interrupt. Unavailable: the Python
// cannot be run or has no torch. Aborted: a rank failed, and its last words.
absl::StatusOr<TorchRun> RunTorch(const TorchRunOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_LINK_TORCH_H_
