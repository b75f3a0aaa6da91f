#include "worker/models/adamw.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longwave {

AdamW::AdamW(const AdamWOptions& options, const KernelOps* ops, Exec exec, uint64_t parameter_count,
             uint64_t decayed_count)
    : options_(options),
      ops_(ops),
      exec_(exec),
      parameter_count_(parameter_count),
      decayed_count_(decayed_count) {
  LONGWAVE_CHECK(decayed_count <= parameter_count);
}

absl::StatusOr<AdamW> AdamW::Create(const AdamWOptions& options, const KernelOps* ops, Exec exec,
                                    uint64_t parameter_count, uint64_t decayed_count) {
  AdamW optimizer(options, ops, exec, parameter_count, decayed_count);
  LONGWAVE_ASSIGN_OR_RETURN(optimizer.m_, DeviceFloats::Create(ops, parameter_count));
  LONGWAVE_ASSIGN_OR_RETURN(optimizer.v_, DeviceFloats::Create(ops, parameter_count));
  return optimizer;
}

absl::Status AdamW::Step(const float* gradient, double learning_rate, float* theta) {
  powers_[0] *= options_.beta1;
  powers_[1] *= options_.beta2;
  AdamWArgs args = {
      .count = decayed_count_,
      .gradient = gradient,
      .m = m_.get(),
      .v = v_.get(),
      .theta = theta,
      .beta1 = static_cast<float>(options_.beta1),
      .one_minus_beta1 = static_cast<float>(1 - options_.beta1),
      .beta2 = static_cast<float>(options_.beta2),
      .one_minus_beta2 = static_cast<float>(1 - options_.beta2),
      .step_size = static_cast<float>(learning_rate / (1 - powers_[0])),
      .root_scale = static_cast<float>(1 / std::sqrt(1 - powers_[1])),
      .epsilon = static_cast<float>(options_.epsilon),
      .keep = static_cast<float>(1 - learning_rate * options_.weight_decay),
  };
  LONGWAVE_RETURN_IF_ERROR(ops_->adamw(exec_, args));
  args.count = parameter_count_ - decayed_count_;
  args.gradient += decayed_count_;
  args.m += decayed_count_;
  args.v += decayed_count_;
  args.theta += decayed_count_;
  args.keep = 1;
  return ops_->adamw(exec_, args);
}

absl::StatusOr<AdamW::State> AdamW::Export() const {
  State state{.m = std::vector<float>(parameter_count_),
              .v = std::vector<float>(parameter_count_),
              .powers = powers_};
  const size_t bytes = parameter_count_ * sizeof(float);
  LONGWAVE_RETURN_IF_ERROR(ops_->copy(exec_, state.m.data(), m_.get(), bytes));
  LONGWAVE_RETURN_IF_ERROR(ops_->copy(exec_, state.v.data(), v_.get(), bytes));
  LONGWAVE_RETURN_IF_ERROR(ops_->wait(exec_));
  return state;
}

absl::Status AdamW::Load(const StateBytes& state) {
  const size_t bytes = parameter_count_ * sizeof(float);
  if (state.m.size() != bytes || state.v.size() != bytes ||
      state.powers.size() != sizeof(powers_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer: got moments of ", state.m.size(), " and ", state.v.size(),
                     " bytes and powers of ", state.powers.size(), ", wanted ", bytes,
                     " for each moment of AdamW and ", sizeof(powers_), " for its powers"));
  }
  std::array<double, 2> powers;
  std::memcpy(powers.data(), state.powers.data(), sizeof(powers));
  for (const double power : powers) {
    if (power >= 0 && power <= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer: got a power of AdamW's beta of ", power, ", wanted 0 to 1"));
  }
  LONGWAVE_RETURN_IF_ERROR(ops_->copy(exec_, m_.get(), state.m.data(), bytes));
  LONGWAVE_RETURN_IF_ERROR(ops_->copy(exec_, v_.get(), state.v.data(), bytes));
  powers_ = powers;
  return ops_->wait(exec_);
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
