#ifndef LONGWAVE_TESTS_BENCH_LOSS_ENERGY_H_
#define LONGWAVE_TESTS_BENCH_LOSS_ENERGY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "kernels/ops.h"
#include "worker/models/replica.h"

namespace longwave {

// Which share of a worker's momentum (before what is sent leaves it) and of the gradient of the
// round's last step the 64 largest of a tile's 4096 hold: as values, and as DCT coefficients. Of
// the tiling `model` (64 × 64 blocks of matrices, runs of all vectors), by tensor, as the mean over
// all rounds of the share of the round. There is one at a time in a process.
class EnergyMeter {
 public:
  // InvalidArgument: a run whose momentum is no flat array of parameters in one segment, or not in
  // the host's memory.
  static absl::Status Check(const RunConfig& config, const KernelOps* ops);

  // The worker's table of operations with a meter at `encode`. ops and replica outlive it.
  const KernelOps* Watch(const KernelOps* ops, Replica& replica);

  void Print() const;

 private:
  struct Row {
    std::string tensor;
    uint64_t from = 0;  // in the flat array
    // Sums over rounds of shares, by what is measured (momentum, gradient) and domain (values,
    // DCT).
    double share[2][2] = {};
  };
  absl::Status Measure(const Exec& exec, const EncodeArgs& args);
  absl::Status Add(const Exec& exec, int measured, const float* signal);

  KernelOps clocked_;
  const KernelOps* ops_ = nullptr;
  Replica* replica_ = nullptr;
  std::optional<Layout> layout_;  // a tile a segment
  std::vector<Row> rows_;
  uint32_t rounds_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_LOSS_ENERGY_H_
