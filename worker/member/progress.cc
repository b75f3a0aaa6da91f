#include "worker/member/progress.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "common/base/figures.h"

namespace longwave {

void Progress::StepBegins(uint64_t step, uint64_t tokens, absl::Time now) {
  if (began_.has_value()) return;
  began_ = line_at_ = now;
  first_step_ = step;
  tokens_ = tokens;
}

std::optional<std::string> Progress::RoundDone(const RoundReport& report, const RoundPlan& rounds,
                                               absl::Time now) {
  const bool is_last = uint64_t{report.round} + 1 == rounds.round_count();
  if (!began_.has_value() || report.round >= rounds.round_count()) return std::nullopt;
  if (has_line_ && !is_last && now - line_at_ < kInterval) return std::nullopt;
  const double seconds = absl::ToDoubleSeconds(now - line_at_);
  const double speed = seconds > 0 ? static_cast<double>(report.tokens - tokens_) / seconds : 0;
  const uint64_t done = report.step - std::min(first_step_, report.step);
  const uint64_t left = steps_ - std::min(report.step, steps_);
  const double seconds_left = done == 0 ? std::numeric_limits<double>::quiet_NaN()
                                        : absl::ToDoubleSeconds(now - *began_) *
                                              static_cast<double>(left) / static_cast<double>(done);
  has_line_ = true;
  line_at_ = now;
  tokens_ = report.tokens;
  return absl::StrFormat("%s  %8s tokens/s  pushed %8s  pulled %8s  left %s",
                         FormatRound({.rounds_done = uint64_t{report.round} + 1,
                                      .rounds = rounds.expected_round_count(),
                                      .step = report.step,
                                      .steps = steps_,
                                      .train_loss = report.train_loss}),
                         FormatCount(speed), FormatBytes(static_cast<double>(report.bytes.pushed)),
                         FormatBytes(static_cast<double>(report.bytes.pulled)),
                         FormatDuration(seconds_left));
}

}  // namespace longwave
