#ifndef LONGWAVE_WORKER_MODELS_ADAMW_H_
#define LONGWAVE_WORKER_MODELS_ADAMW_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device_floats.h"
#include "kernels/ops.h"
#include "worker/models/inner_optimizer.h"

namespace longwave {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

// AdamW over ranges of a flat array in a backend's memory, in one pass. The arithmetic is
// AdamWArgs's, so equal inputs give equal bits on every machine, GPU or not. Source: Loshchilov &
// Hutter 2019 (arXiv 1711.05101).
class AdamW final : public InnerOptimizer {
 public:
  // Parameters outside of the ranges do not change. ResourceExhausted: no memory for the moments.
  // `ops` outlives the optimizer.
  static absl::StatusOr<AdamW> Create(const AdamWOptions& options, const KernelOps* ops, Exec exec,
                                      std::vector<ParameterRange> ranges);

  absl::Status Step(const float* gradient, double learning_rate, float* theta) override;
  // adamw.m and adamw.v, f32 a parameter of the ranges, and adamw.powers, two f64.
  std::vector<StateArray> State() override;
  absl::Status CheckState() const override;

 private:
  AdamW(const AdamWOptions& options, const KernelOps* ops, Exec exec,
        std::vector<ParameterRange> ranges)
      : options_(options), ops_(ops), exec_(exec), ranges_(std::move(ranges)) {}

  AdamWOptions options_;
  const KernelOps* ops_;
  Exec exec_;
  std::vector<ParameterRange> ranges_;
  std::array<double, 2> powers_ = {1, 1};  // β₁ᵗ and β₂ᵗ after t steps
  DeviceFloats m_;                         // range after range
  DeviceFloats v_;
};

// m ← μ·m + g;  θ ← θ·keep − lr·m, by AdamW's kernel with β₁ μ, β₂ 0, ε 1 and a second moment of
// zeros. The cost of equal bits on every machine is an array of zeros.
class Sgd final : public InnerOptimizer {
 public:
  static absl::StatusOr<Sgd> Create(double momentum, double weight_decay, const KernelOps* ops,
                                    Exec exec, std::vector<ParameterRange> ranges);

  absl::Status Step(const float* gradient, double learning_rate, float* theta) override;
  // sgd.momentum, f32 a parameter of the ranges.
  std::vector<StateArray> State() override;

 private:
  Sgd(double momentum, double weight_decay, const KernelOps* ops, Exec exec,
      std::vector<ParameterRange> ranges)
      : momentum_(momentum),
        weight_decay_(weight_decay),
        ops_(ops),
        exec_(exec),
        ranges_(std::move(ranges)) {}

  double momentum_, weight_decay_;
  const KernelOps* ops_;
  Exec exec_;
  std::vector<ParameterRange> ranges_;
  DeviceFloats m_;
  DeviceFloats zeros_;
};

// Scales the gradient, [count] in the backend's memory, so that its L2 norm is at most norm_max (0:
// no limit). Returns the norm before, with the same bits on every backend (SquareSumArgs).
absl::StatusOr<double> ClipToNorm(const KernelOps& ops, const Exec& exec, double norm_max,
                                  float* gradient, uint64_t count);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_ADAMW_H_
