#include "server/coordinator/interval_control.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"

namespace longwave {
namespace {

// H stays while the needed H is at most so many times larger or smaller.
constexpr double kBandUp = 1.2;
constexpr double kBandDown = 1.5;
constexpr double kStepMax = 2;  // of one change
// A step that takes longer than the quorum's rounds by rounding alone was in time.
constexpr double kInTime = 1.01;

struct Timed {
  double step_seconds = 0;
  double sync_seconds = 0;
  double round_seconds = 0;
};

double LostShareOf(double cost_seconds, double step_seconds, double inner_steps) {
  const double round_seconds = cost_seconds + inner_steps * step_seconds;
  return round_seconds > 0 ? cost_seconds / round_seconds : 0;
}

}  // namespace

uint32_t IntervalControl::First() const {
  const double mean = std::sqrt(1.0 * options_.least * options_.most);
  return std::clamp(static_cast<uint32_t>(std::lround(mean)), options_.least, options_.most);
}

size_t IntervalControl::QuorumIndex(size_t count) const {
  const auto quorum = static_cast<size_t>(std::ceil(options_.quorum * static_cast<double>(count)));
  return std::clamp<size_t>(quorum, 1, count) - 1;
}

void IntervalControl::Add(uint32_t round, uint32_t inner_steps, std::span<const RoundWork> work) {
  std::vector<Timed> members;
  for (const RoundWork& each : work) {
    const auto [last, is_new] = reported_.try_emplace(each.worker, round);
    const bool has_before = is_new ? round == 0 : last->second + 1 == round;
    last->second = round;
    const double seconds = each.seconds_computing + each.seconds_syncing;
    if (!has_before || !std::isfinite(seconds) || each.seconds_computing <= 0) continue;
    members.push_back({.step_seconds = each.seconds_computing / inner_steps,
                       .sync_seconds = std::max(0.0, each.seconds_syncing),
                       .round_seconds = seconds});
  }
  if (members.empty()) return;
  const size_t quorum = QuorumIndex(members.size());
  std::ranges::sort(members, {}, &Timed::round_seconds);
  const double round_seconds = members[quorum].round_seconds;
  double slowest = 0;
  for (const Timed& member : members) {
    if (member.step_seconds * inner_steps <= round_seconds * kInTime)
      slowest = std::max(slowest, member.step_seconds);
  }
  std::vector<Sample> samples;
  for (const Timed& member : members) {
    Sample sample;
    sample.step_seconds = std::max(slowest, member.step_seconds);
    const double waited = inner_steps * (sample.step_seconds - member.step_seconds);
    sample.cost_seconds = std::max(0.0, member.sync_seconds - waited);
    sample.needed = sample.cost_seconds * (1 - options_.target_share) /
                    (options_.target_share * sample.step_seconds);
    samples.push_back(sample);
  }
  std::ranges::sort(samples, {}, &Sample::needed);
  samples_.push_back(samples[quorum]);
  if (samples_.size() > kWindow) samples_.pop_front();
}

const IntervalControl::Sample* IntervalControl::Median() const {
  if (samples_.empty()) return nullptr;
  std::vector<const Sample*> sorted;
  for (const Sample& sample : samples_) sorted.push_back(&sample);
  std::ranges::sort(sorted, {}, [](const Sample* sample) { return sample->needed; });
  return sorted[sorted.size() / 2];
}

IntervalControl::Choice IntervalControl::Next(uint32_t present, uint32_t rounds) const {
  Choice choice{.inner_steps = present, .reason = {}};
  const Sample* const median = Median();
  if (samples_.size() < kRoundsMin || rounds < kRoundsBetween) return choice;
  const double needed =
      std::clamp<double>(std::ceil(median->needed), options_.least, options_.most);
  const bool is_up = needed > present * kBandUp;
  const bool is_down = needed * kBandDown < present && samples_.size() == kWindow;
  if (!is_up && !is_down) return choice;
  const double next = is_up ? std::min(needed, std::floor(present * kStepMax))
                            : std::max(needed, std::ceil(present / kStepMax));
  choice.inner_steps = static_cast<uint32_t>(next);
  if (choice.inner_steps == present) return choice;
  const double lost = LostShareOf(median->cost_seconds, median->step_seconds, present);
  const double then = LostShareOf(median->cost_seconds, median->step_seconds, next);
  choice.reason = absl::StrFormat(
      "a sync costs %.3g s and a step takes %.3g s (median of the last %d rounds), so that syncs "
      "take %.1f %% of the time with %d steps and %.1f %% with %d; wanted at most %.1f %%",
      median->cost_seconds, median->step_seconds, samples_.size(), 100 * lost, present, 100 * then,
      choice.inner_steps, 100 * options_.target_share);
  return choice;
}

std::optional<double> IntervalControl::SecondsOfRound(uint32_t inner_steps) const {
  const Sample* const median = Median();
  if (median == nullptr) return std::nullopt;
  return median->cost_seconds + inner_steps * median->step_seconds;
}

std::optional<double> IntervalControl::LostShare(uint32_t inner_steps) const {
  const Sample* const median = Median();
  if (median == nullptr) return std::nullopt;
  return LostShareOf(median->cost_seconds, median->step_seconds, inner_steps);
}

}  // namespace longwave
