#include "common/config/run_config.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/ceil_divide.h"
#include "common/base/enum_name.h"

namespace longwave {

std::string_view Name(SignalKind signal) {
  return EnumName(signal, {"gradient", "pseudo-gradient"});
}

std::string_view Name(UpdateRule update) {
  return EnumName(update, {"sgd", "sign", "nesterov", "inner", "local"});
}

uint32_t LeastInnerSteps(const SyncSection& sync) {
  return sync.inner_steps == 0 ? sync.inner_steps_min : sync.inner_steps;
}

uint32_t MostInnerSteps(const SyncSection& sync) {
  return sync.inner_steps == 0 ? sync.inner_steps_max : sync.inner_steps;
}

uint64_t RoundCount(const RunConfig& config) {
  return CeilDivide(config.run.steps, std::max<uint64_t>(1, LeastInnerSteps(config.sync)));
}

uint64_t ExpectedRounds(const RunConfig& config, uint64_t rounds_done, uint64_t steps_done) {
  if (!FitsInterval(config)) return RoundCount(config);
  if (rounds_done == 0 || steps_done == 0) return 0;
  const uint64_t left = config.run.steps - std::min(steps_done, config.run.steps);
  return rounds_done + CeilDivide(left * rounds_done, steps_done);
}

std::string FewRoundsSentence(const RunConfig& config) {
  // The residual of a push is sent within some ten rounds (k of 4096 at a time).
  constexpr uint64_t kRoundsEnough = 10;
  const uint64_t rounds = RoundCount(config);
  if (rounds >= kRoundsEnough) return "";
  if (FitsInterval(config)) {
    return absl::StrCat("at most ", rounds, rounds == 1 ? " round is" : " rounds are",
                        " few (run.steps ", config.run.steps, " over sync.inner_steps_min ",
                        config.sync.inner_steps_min, "): loss and bytes say little of fewer than ",
                        kRoundsEnough);
  }
  return absl::StrCat(rounds, rounds == 1 ? " is" : " are", " few (run.steps ", config.run.steps,
                      " over sync.inner_steps ", config.sync.inner_steps,
                      "): loss and bytes say little of fewer than ", kRoundsEnough);
}

uint32_t WorkersMax(const RunConfig& config) {
  if (config.cluster.workers_max > 0) return config.cluster.workers_max;
  return std::max(64u, 2 * config.run.workers);
}

absl::Duration AwayTimeout(const RunConfig& config) {
  const double seconds = config.cluster.away_timeout_s;
  return seconds > 0 ? absl::Seconds(seconds) : absl::InfiniteDuration();
}

uint64_t ContributionStepsMax(const RunConfig& config) {
  const uint64_t inner_steps = MostInnerSteps(config.sync);
  const uint64_t rounds = RoundCount(config);
  if (rounds <= 1) return config.run.steps;
  if (FitsInterval(config)) {
    const uint64_t rounds_covered = config.sync.fragments == 1 ? 1 : 2;
    return std::min(rounds_covered * inner_steps, config.run.steps);
  }
  if (config.sync.fragments == 1) return inner_steps;
  // The first fragment waits longest for the end: since ⌈H / F⌉ steps into the round before the
  // last. A model with fewer fragments than wanted waits less.
  const uint64_t last = (rounds - 2) * inner_steps + CeilDivide(inner_steps, config.sync.fragments);
  return std::max(inner_steps, config.run.steps - last);
}

uint64_t ContributionWeightMax(const RunConfig& config) {
  return ContributionStepsMax(config) * config.train.batch * config.model.context;
}

LayoutOptions LayoutOptionsFor(const RunConfig& config, const Manifest& manifest) {
  LayoutOptions options{.tiling = config.sync.tiling,
                        .block = config.sync.block,
                        .segment_tiles = config.sync.segment_tiles,
                        .shard_count = 1};
  const absl::StatusOr<uint64_t> counted = CountTiles(manifest, options);
  options.shard_count = config.run.shards;
  if (!counted.ok()) return options;

  // An even share balances the shards best, but rounded up may leave the last one without a
  // segment.
  const uint64_t tiles = *counted;
  const uint64_t shards = std::max<uint64_t>(1, config.run.shards);
  uint64_t share = std::max<uint64_t>(1, CeilDivide(tiles, shards));
  if (CeilDivide(tiles, share) < shards) share = std::max<uint64_t>(1, tiles / shards);
  options.segment_tiles = static_cast<uint32_t>(std::min<uint64_t>(options.segment_tiles, share));
  return options;
}

}  // namespace longwave
