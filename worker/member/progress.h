#ifndef LONGWAVE_WORKER_MEMBER_PROGRESS_H_
#define LONGWAVE_WORKER_MEMBER_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/control/round_plan.h"

namespace longwave {

// A worker's log lines about finished rounds: one a round, but at most one a second, except for the
// last round.
class Progress {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // steps: of the run.
  explicit Progress(uint64_t steps) : steps_(steps) {}

  // Called when an inner step begins at the run's `step`. Speed is measured from the first call on.
  void StepBegins(uint64_t step, uint64_t tokens, absl::Time now);
  // Returns a line if one is due. report: complete. rounds: the run's, as far as decided.
  std::optional<std::string> RoundDone(const RoundReport& report, const RoundPlan& rounds,
                                       absl::Time now);

 private:
  const uint64_t steps_;
  std::optional<absl::Time> began_;
  uint64_t first_step_ = 0;
  absl::Time line_at_;   // time of the last line, or of the beginning
  uint64_t tokens_ = 0;  // at that time
  bool has_line_ = false;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_PROGRESS_H_
