#include "worker/models/adamw.h"

#include <cmath>
#include <utility>

#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

// A step over the ranges. `args` has the scalars and the beginnings of the arrays. State arrays
// hold range after range.
absl::Status StepRanges(const KernelOps& ops, const Exec& exec,
                        const std::vector<ParameterRange>& ranges, float keep,
                        const AdamWArgs& args) {
  uint64_t done = 0;
  for (const ParameterRange& range : ranges) {
    AdamWArgs part = args;
    part.count = range.count;
    part.gradient += range.begin;
    part.theta += range.begin;
    part.m += done;
    part.v += done;
    part.keep = range.decays ? keep : 1;
    LONGWAVE_RETURN_IF_ERROR(ops.adamw(exec, part));
    done += range.count;
  }
  return absl::OkStatus();
}

uint64_t CountOf(const std::vector<ParameterRange>& ranges) {
  uint64_t count = 0;
  for (const ParameterRange& range : ranges) count += range.count;
  return count;
}

}  // namespace

absl::StatusOr<AdamW> AdamW::Create(const AdamWOptions& options, const KernelOps* ops, Exec exec,
                                    std::vector<ParameterRange> ranges) {
  const uint64_t count = CountOf(ranges);
  AdamW optimizer(options, ops, exec, std::move(ranges));
  LONGWAVE_ASSIGN_OR_RETURN(optimizer.m_, DeviceFloats::Create(ops, count));
  LONGWAVE_ASSIGN_OR_RETURN(optimizer.v_, DeviceFloats::Create(ops, count));
  return optimizer;
}

absl::Status AdamW::Step(const float* gradient, double learning_rate, float* theta) {
  powers_[0] *= options_.beta1;
  powers_[1] *= options_.beta2;
  return StepRanges(*ops_, exec_, ranges_,
                    static_cast<float>(1 - learning_rate * options_.weight_decay),
                    {.gradient = gradient,
                     .m = m_.get(),
                     .v = v_.get(),
                     .theta = theta,
                     .beta1 = static_cast<float>(options_.beta1),
                     .one_minus_beta1 = static_cast<float>(1 - options_.beta1),
                     .beta2 = static_cast<float>(options_.beta2),
                     .one_minus_beta2 = static_cast<float>(1 - options_.beta2),
                     .step_size = static_cast<float>(learning_rate / (1 - powers_[0])),
                     .root_scale = static_cast<float>(1 / std::sqrt(1 - powers_[1])),
                     .epsilon = static_cast<float>(options_.epsilon)});
}

std::vector<StateArray> AdamW::State() {
  return {{"adamw.m", m_.get(), CountOf(ranges_) * sizeof(float)},
          {"adamw.v", v_.get(), CountOf(ranges_) * sizeof(float)},
          {"adamw.powers", powers_.data(), sizeof(powers_)}};
}

absl::Status AdamW::CheckState() const {
  for (const double power : powers_) {
    if (power >= 0 && power <= 1) continue;
    return InvalidArgument("optimizer: got a power of AdamW's beta of ", power, ", wanted 0 to 1");
  }
  return absl::OkStatus();
}

absl::StatusOr<Sgd> Sgd::Create(double momentum, double weight_decay, const KernelOps* ops,
                                Exec exec, std::vector<ParameterRange> ranges) {
  const uint64_t count = CountOf(ranges);
  Sgd optimizer(momentum, weight_decay, ops, exec, std::move(ranges));
  LONGWAVE_ASSIGN_OR_RETURN(optimizer.m_, DeviceFloats::Create(ops, count));
  LONGWAVE_ASSIGN_OR_RETURN(optimizer.zeros_, DeviceFloats::Create(ops, count));
  return optimizer;
}

absl::Status Sgd::Step(const float* gradient, double learning_rate, float* theta) {
  return StepRanges(*ops_, exec_, ranges_, static_cast<float>(1 - learning_rate * weight_decay_),
                    {.gradient = gradient,
                     .m = m_.get(),
                     .v = zeros_.get(),
                     .theta = theta,
                     .beta1 = static_cast<float>(momentum_),
                     .one_minus_beta1 = 1,
                     .beta2 = 0,
                     .one_minus_beta2 = 0,
                     .step_size = static_cast<float>(learning_rate),
                     .root_scale = 1,
                     .epsilon = 1});
}

std::vector<StateArray> Sgd::State() {
  return {{"sgd.momentum", m_.get(), CountOf(ranges_) * sizeof(float)}};
}

absl::StatusOr<double> ClipToNorm(const KernelOps& ops, const Exec& exec, double norm_max,
                                  float* gradient, uint64_t count) {
  double square_sum = 0;
  LONGWAVE_RETURN_IF_ERROR(
      ops.square_sum(exec, {.count = count, .x = gradient, .sum = &square_sum}));
  const double norm = std::sqrt(square_sum);
  if (norm_max > 0 && norm > norm_max) {
    const auto scale = static_cast<float>(norm_max / norm);
    LONGWAVE_RETURN_IF_ERROR(ops.scale(exec, {.count = count, .x = gradient, .scale = scale}));
  }
  return norm;
}

}  // namespace longwave
