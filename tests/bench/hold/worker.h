#ifndef LONGWAVE_TESTS_BENCH_HOLD_WORKER_H_
#define LONGWAVE_TESTS_BENCH_HOLD_WORKER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"

namespace longwave {

struct HeldWorkerOptions {
  RunConfig config;
  std::string state_dir;
  uint64_t parameters = 0;
  uint32_t optimizer_arrays = 2;  // of the size of the parameters: AdamW's two, Muon's one
  double step_seconds = 0.080;
  // The disk hangs for so long from the middle of the run on, while the file exists.
  double hang_seconds = 0;
  std::string hang_file;
};

// The model's tensors: of a GPT of width 768 where they fit, so that tiles and segments are those
// of a real one.
Manifest HeldManifest(uint64_t parameters);

// A worker of the run whose inner step is a pause. Prints a line for each round,
//   round R held SECONDS kernels SECONDS longest SECONDS
// the time between two inner steps, summed over the round, the kernels' part of it, and the longest
// of its times between two steps without the kernels.
absl::Status RunHeldWorker(const HeldWorkerOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_HOLD_WORKER_H_
