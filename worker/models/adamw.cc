#include "worker/models/adamw.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "common/base/check.h"

namespace longwave {
namespace {

struct StepScalars {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float step_size;   // lr / (1 − β₁ᵗ)
  float root_scale;  // 1 / √(1 − β₂ᵗ)
  float epsilon;
  float keep;  // 1 − lr·wd
};

// Free of branches and of aliases, for the vectorizer.
void Run(const StepScalars s, size_t count, const float* __restrict g, float* __restrict m,
         float* __restrict v, float* __restrict theta) {
  for (size_t i = 0; i < count; ++i) {
    const float m_new = s.beta1 * m[i] + s.one_minus_beta1 * g[i];
    const float v_new = s.beta2 * v[i] + s.one_minus_beta2 * (g[i] * g[i]);
    m[i] = m_new;
    v[i] = v_new;
    const float root = std::sqrt(v_new) * s.root_scale + s.epsilon;
    theta[i] = theta[i] * s.keep - s.step_size * (m_new / root);
  }
}

}  // namespace

AdamW::AdamW(const AdamWOptions& options, uint64_t parameter_count, uint64_t decayed_count)
    : options_(options), decayed_count_(decayed_count), m_(parameter_count), v_(parameter_count) {
  LONGWAVE_CHECK(decayed_count <= parameter_count);
}

void AdamW::Step(std::span<const float> gradient, double learning_rate, std::span<float> theta) {
  LONGWAVE_CHECK(gradient.size() == m_.size() && theta.size() == m_.size());
  beta1_power_ *= options_.beta1;
  beta2_power_ *= options_.beta2;
  StepScalars scalars{
      .beta1 = static_cast<float>(options_.beta1),
      .one_minus_beta1 = static_cast<float>(1 - options_.beta1),
      .beta2 = static_cast<float>(options_.beta2),
      .one_minus_beta2 = static_cast<float>(1 - options_.beta2),
      .step_size = static_cast<float>(learning_rate / (1 - beta1_power_)),
      .root_scale = static_cast<float>(1 / std::sqrt(1 - beta2_power_)),
      .epsilon = static_cast<float>(options_.epsilon),
      .keep = static_cast<float>(1 - learning_rate * options_.weight_decay),
  };
  Run(scalars, decayed_count_, gradient.data(), m_.data(), v_.data(), theta.data());
  scalars.keep = 1;
  const size_t at = decayed_count_;
  Run(scalars, m_.size() - at, gradient.data() + at, m_.data() + at, v_.data() + at,
      theta.data() + at);
}

double ClipToNorm(double norm_max, std::span<float> gradient) {
  // Lane i sums the elements i, i + kLanes, …: the order is the same however wide the vectors are.
  constexpr size_t kLanes = 16;
  std::array<double, kLanes> lanes = {};
  const size_t whole = gradient.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = gradient[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (size_t i = whole; i < gradient.size(); ++i) {
    lanes[i - whole] += static_cast<double>(gradient[i]) * gradient[i];
  }
  double square_sum = 0;
  for (double lane : lanes) square_sum += lane;
  const double norm = std::sqrt(square_sum);
  if (norm_max > 0 && norm > norm_max) {
    const auto scale = static_cast<float>(norm_max / norm);
    for (float& value : gradient) value *= scale;
  }
  return norm;
}

}  // namespace longwave
