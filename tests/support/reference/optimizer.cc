#include "tests/support/reference/optimizer.h"

#include <cmath>

#include "common/base/status_macros.h"
#include "kernels/check_args.h"

namespace longwave::ref {

absl::Status AdamW(const Exec&, const AdamWArgs& a) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(a));
  for (uint64_t i = 0; i < a.count; ++i) {
    const double g = a.gradient[i];
    const double m = double{a.beta1} * a.m[i] + a.one_minus_beta1 * g;
    const double v = double{a.beta2} * a.v[i] + a.one_minus_beta2 * g * g;
    const double root = std::sqrt(v) * a.root_scale + a.epsilon;
    a.m[i] = static_cast<float>(m);
    a.v[i] = static_cast<float>(v);
    a.theta[i] = static_cast<float>(double{a.theta[i]} * a.keep - a.step_size * (m / root));
  }
  return absl::OkStatus();
}

absl::Status SquareSum(const Exec&, const SquareSumArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  long double sum = 0;
  for (uint64_t i = 0; i < args.count; ++i) {
    sum += static_cast<long double>(args.x[i]) * args.x[i];
  }
  *args.sum = static_cast<double>(sum);
  return absl::OkStatus();
}

absl::Status Scale(const Exec&, const ScaleArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  for (uint64_t i = 0; i < args.count; ++i) {
    args.x[i] = static_cast<float>(double{args.x[i]} * args.scale);
  }
  return absl::OkStatus();
}

absl::Status Blend(const Exec&, const BlendArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckArgs(args));
  for (uint64_t i = args.begin; i < args.end; ++i) {
    double theta = args.anchor[i];
    if (args.alpha != 0) theta += args.alpha * (double{args.theta[i]} - args.base[i]);
    args.theta[i] = static_cast<float>(theta);
  }
  return absl::OkStatus();
}

}  // namespace longwave::ref
