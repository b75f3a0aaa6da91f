#ifndef LONGWAVE_WORKER_MODELS_ADAMW_H_
#define LONGWAVE_WORKER_MODELS_ADAMW_H_

#include <cstdint>
#include <span>
#include <vector>

namespace longwave {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

// The inner optimizer over a flat array, in one pass:
//   m ← β₁·m + (1 − β₁)·g
//   v ← β₂·v + (1 − β₂)·g²
//   θ ← θ − lr·wd·θ                                      (of the first decayed_count alone)
//   θ ← θ − lr/(1 − β₁ᵗ) · m / (√(v/(1 − β₂ᵗ)) + ε)
// Each operation is rounded on its own and none comes from the maths library, so that equal inputs
// give equal bits on every machine. Source: Loshchilov & Hutter 2019 (arXiv 1711.05101).
class AdamW {
 public:
  // decayed_count: parameters at the array's front that weight decay shrinks (the layout puts the
  // matrices there; vectors are left alone).
  AdamW(const AdamWOptions& options, uint64_t parameter_count, uint64_t decayed_count);

  // Both [parameter_count].
  void Step(std::span<const float> gradient, double learning_rate, std::span<float> theta);

 private:
  AdamWOptions options_;
  uint64_t decayed_count_;
  double beta1_power_ = 1;  // β₁ᵗ
  double beta2_power_ = 1;
  std::vector<float> m_;
  std::vector<float> v_;
};

// Scales the gradient so that its L2 norm is at most norm_max (0: leaves it). Returns the norm
// before. The sum is taken in double in a fixed order.
double ClipToNorm(double norm_max, std::span<float> gradient);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_ADAMW_H_
