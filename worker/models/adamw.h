#ifndef LONGWAVE_WORKER_MODELS_ADAMW_H_
#define LONGWAVE_WORKER_MODELS_ADAMW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device_floats.h"
#include "kernels/ops.h"

namespace longwave {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

// The inner optimizer over a flat array in a backend's memory, in one pass: the arithmetic is that
// of AdamWArgs, so that equal inputs give equal bits on every machine, GPU or not.
// Source: Loshchilov & Hutter 2019 (arXiv 1711.05101).
class AdamW {
 public:
  // decayed_count: parameters at the array's front that weight decay shrinks (the layout puts the
  // matrices there; vectors are left alone). ResourceExhausted: no memory for the moments. `ops`
  // outlives the optimizer.
  static absl::StatusOr<AdamW> Create(const AdamWOptions& options, const KernelOps* ops, Exec exec,
                                      uint64_t parameter_count, uint64_t decayed_count);

  // Both [parameter_count], in the backend's memory. Enqueues and returns.
  absl::Status Step(const float* gradient, double learning_rate, float* theta);

  // All that its steps have made of it, in the host's memory.
  struct State {
    std::vector<float> m;  // [parameter_count]
    std::vector<float> v;
    std::array<double, 2> powers = {1, 1};  // β₁ᵗ and β₂ᵗ after t steps
  };
  absl::StatusOr<State> Export() const;
  // The bytes of a State's parts, aligned in any way.
  struct StateBytes {
    std::span<const std::byte> m, v, powers;
  };
  // InvalidArgument: a state of another number of parameters, or powers that no steps have.
  absl::Status Load(const StateBytes& state);

 private:
  AdamW(const AdamWOptions& options, const KernelOps* ops, Exec exec, uint64_t parameter_count,
        uint64_t decayed_count);

  AdamWOptions options_;
  const KernelOps* ops_;
  Exec exec_;
  uint64_t parameter_count_;
  uint64_t decayed_count_;
  std::array<double, 2> powers_ = {1, 1};  // β₁ᵗ, β₂ᵗ
  DeviceFloats m_;
  DeviceFloats v_;
};

// Scales the gradient, [count] in the backend's memory, so that its L2 norm is at most norm_max (0:
// leaves it). Returns the norm before; the same bits on every backend (SquareSumArgs).
absl::StatusOr<double> ClipToNorm(const KernelOps& ops, const Exec& exec, double norm_max,
                                  float* gradient, uint64_t count);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_ADAMW_H_
