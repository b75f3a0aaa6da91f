#ifndef LONGWAVE_WORKER_MEMBER_SCHEDULE_H_
#define LONGWAVE_WORKER_MEMBER_SCHEDULE_H_

#include <cstdint>

#include "common/config/run_config.h"
#include "common/control/round_plan.h"

namespace longwave {

// The learning rate of each inner step: a linear warm-up to the peak, then half a cosine down to
// final_learning_rate_share of the peak, which step `steps` (one past the last) would have. Plain
// arithmetic instead of the maths library gives the same number on every machine.
class Schedule {
 public:
  Schedule(const TrainSection& train, uint64_t steps);

  double LearningRate(uint64_t step) const;

 private:
  double peak_;
  double final_share_;
  uint64_t warmup_steps_;
  uint64_t steps_;
};

// Whether a validation follows the round, which is decided: every `validate_every` rounds, or about
// twenty times in all if that is 0; and after the last round.
bool ValidationIsDue(uint32_t validate_every, const RoundPlan& rounds, uint32_t round);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_SCHEDULE_H_
