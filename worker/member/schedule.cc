#include "worker/member/schedule.h"

#include <algorithm>

#include "common/base/trigonometry.h"

namespace longwave {
namespace {

constexpr uint64_t kValidations = 20;

}  // namespace

Schedule::Schedule(const TrainSection& train, uint64_t steps)
    : peak_(train.learning_rate),
      final_share_(train.final_learning_rate_share),
      warmup_steps_(train.warmup_steps),
      steps_(steps) {}

double Schedule::LearningRate(uint64_t step) const {
  if (step < warmup_steps_) {
    return peak_ * static_cast<double>(step + 1) / static_cast<double>(warmup_steps_);
  }
  if (steps_ <= warmup_steps_) return peak_;
  const double progress = std::min(
      1.0, static_cast<double>(step - warmup_steps_) / static_cast<double>(steps_ - warmup_steps_));
  // (1 + cos(π·p)) / 2 = sin²(π·(1 − p)/2)
  const double root = SinHalfPi(1 - progress);
  return peak_ * (final_share_ + (1 - final_share_) * (root * root));
}

bool ValidationIsDue(uint32_t validate_every, const RoundPlan& rounds, uint32_t round) {
  const uint64_t done = uint64_t{round} + 1;
  if (done == rounds.round_count()) return true;
  if (validate_every > 0) return done % validate_every == 0;
  if (rounds.is_fixed())
    return done % std::max<uint64_t>(1, rounds.round_count() / kValidations) == 0;
  const auto part = [&](uint32_t before) {
    return rounds.FirstStep(before) * kValidations / rounds.steps();
  };
  return part(round + 1) > part(round);
}

}  // namespace longwave
