#include "tests/sim/settings.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/enum_name.h"
#include "common/base/rng.h"

namespace longwave::sim {
namespace {

// Up to so many workers the means of signals are whole numbers.
constexpr uint32_t kSmallWorldMax = 8;
// Up to so many workers the coordinator's record is written with each of their reports.
constexpr uint32_t kDurableWorldMax = 64;
// Kinds that are drawn together.
constexpr size_t kMixedKinds = static_cast<size_t>(FaultKind::kOlderFolder);

absl::Duration Between(Rng& rng, absl::Duration min, absl::Duration max) {
  return min + (max - min) * rng.Uniform();
}
bool Chance(Rng& rng, double share) { return rng.Uniform() < share; }
template <typename T>
T Either(Rng& rng, std::initializer_list<T> values) {
  return values.begin()[rng.Below(values.size())];
}

uint32_t UnitFor(uint32_t workers) {
  if (workers > kSmallWorldMax) return 1;
  uint32_t unit = 1;
  for (uint32_t n = 2; n <= workers; ++n) unit = std::lcm(unit, n);
  return unit;
}

void DrawWorkers(const WorldOptions& options, Rng& rng, WorldSettings& world) {
  world.workers = options.workers > 0 ? options.workers : static_cast<uint32_t>(2 + rng.Below(5));
  const bool small = world.workers <= kSmallWorldMax;
  // A few workers come late.
  const uint32_t late_max = options.faults && small ? (world.workers - 1) / 2 : 0;
  world.workers_wanted = world.workers - static_cast<uint32_t>(rng.Below(late_max + 1));
  const absl::Duration usual = Between(rng, absl::Milliseconds(200), absl::Seconds(3));
  for (uint32_t w = 0; w < world.workers; ++w) {
    const bool late = w >= world.workers_wanted;
    world.worker_has_disk.push_back(Chance(rng, 0.7));
    world.worker_starts_at.push_back(late ? Between(rng, absl::Seconds(5), absl::Seconds(40))
                                          : Between(rng, absl::ZeroDuration(), absl::Seconds(2)));
    world.round_computation.push_back(usual * (0.8 + 0.4 * rng.Uniform()));
  }
  world.unit = UnitFor(world.workers);
}

// Several segments of each fragment at a shard, and memory for only a few of their pushes.
void DrawFragments(Rng& rng, WorldSettings& world) {
  world.segments = world.shards * static_cast<uint32_t>(3 + rng.Below(4));
  world.fragments = static_cast<uint32_t>(2 + rng.Below(3));
  world.open_bytes_max = 1 + rng.Below(1200);
}

void DrawMethod(const WorldOptions& options, Rng& rng, WorldSettings& world) {
  const bool small = world.workers <= kSmallWorldMax;
  world.method = static_cast<Method>(rng.Below(3));
  world.rho = Either(rng, {0.0, 0.25, 1.0});
  // Other shares than none and all need not give whole means.
  if (world.method == Method::kTopK && world.rho == 0.25) world.rho = 1;
  world.shards = options.shards > 0 ? options.shards : static_cast<uint32_t>(1 + rng.Below(3));
  world.segments = std::max(world.shards, static_cast<uint32_t>(2 + (small ? rng.Below(4) : 0)));
  world.rounds = options.rounds > 0 ? options.rounds : static_cast<uint32_t>(4 + rng.Below(9));
  world.quorum = Either(rng, {0.5, 0.5, 0.75, 1.0});
  world.grace_min = Between(rng, absl::Milliseconds(100), absl::Seconds(4));
  world.grace_max = world.grace_min + Between(rng, absl::ZeroDuration(), absl::Seconds(8));
  world.state_rounds = static_cast<uint32_t>(1 + rng.Below(4));
  world.snapshot_rounds = static_cast<uint32_t>(1 + rng.Below(4));
  world.coordinator_is_durable = world.workers <= kDurableWorldMax;
  world.shards_move = Chance(rng, 0.5);
  // The payload of one dense push is 272 bytes.
  world.open_bytes_max = small && Chance(rng, 0.3) ? 300 + rng.Below(2000) : 0;
  world.log_file_bytes = small ? 1024 + rng.Below(6000) : 4u << 20;
  if (options.fragments) DrawFragments(rng, world);
}

void DrawTimes(Rng& rng, WorldSettings& world) {
  const bool small = world.workers <= kSmallWorldMax;
  world.heartbeat_interval = small ? absl::Seconds(1) : absl::Seconds(5);
  world.heartbeat_timeout = small ? absl::Seconds(8 + rng.Below(8)) : absl::Seconds(40);
  world.start_timeout = absl::Seconds(300);
  world.commit_time_max = Between(rng, absl::Milliseconds(1), absl::Milliseconds(60));
  world.network.latency_max = Between(rng, absl::Milliseconds(2), absl::Milliseconds(300));
  world.network.bytes_per_second = small ? 2e4 * (1 + 50 * rng.Uniform()) : 1e9;
}

// The faults to draw from. Each seed has only some kinds, so that each kind also comes alone and
// often.
struct FaultMix {
  std::vector<FaultKind> kinds;
  uint32_t count = 0;
  absl::Duration window;
};

FaultMix DrawMix(const WorldOptions& options, Rng& rng, const WorldSettings& world) {
  FaultMix mix;
  for (size_t i = 0; i < kMixedKinds; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    // See DrawDeadLinks and DrawOldFolders.
    if (kind == FaultKind::kDeadLink || kind == FaultKind::kOldFolder) continue;
    if (kind == FaultKind::kPoison && std::ranges::count(options.only, kind) == 0) continue;
    const bool drawn = Chance(rng, 0.35) || kind == FaultKind::kPoison;
    // Other replicas must repair the damaged one.
    const bool has_whom_it_needs = kind != FaultKind::kDamage || world.workers > 1;
    const bool may_be =
        has_whom_it_needs && (options.only.empty() || std::ranges::count(options.only, kind) > 0);
    if (may_be && (drawn || options.only.size() == 1)) mix.kinds.push_back(kind);
  }
  // The others must be present all the time, so this damage comes alone.
  if (options.only.empty() && std::ranges::count(mix.kinds, FaultKind::kDamage) > 0) {
    if (Chance(rng, 0.3)) {
      mix.kinds = {FaultKind::kDamage};
    } else {
      std::erase(mix.kinds, FaultKind::kDamage);
    }
  }
  mix.window = absl::Seconds(10) + absl::Seconds(4) * world.rounds;
  mix.count = mix.kinds.empty() ? 0 : static_cast<uint32_t>(1 + rng.Below(14));
  return mix;
}

uint32_t DrawShardNode(Rng& rng, const WorldSettings& world) {
  return world.NodeOfShard(static_cast<uint32_t>(rng.Below(world.shards)));
}
uint32_t DrawWorkerNode(Rng& rng, const WorldSettings& world) {
  return world.NodeOfWorker(static_cast<uint32_t>(rng.Below(world.workers)));
}
// The few shards and the coordinator are hit as often as the workers.
uint32_t DrawNode(Rng& rng, const WorldSettings& world) {
  const uint64_t part = rng.Below(10);
  if (part < 2) return 0;
  return part < 5 ? DrawShardNode(rng, world) : DrawWorkerNode(rng, world);
}

void DrawWeather(Rng& rng, Fault& fault) {
  if (Chance(rng, 0.7)) fault.weather.lost = 0.3 * rng.Uniform();
  if (Chance(rng, 0.5)) fault.weather.stalled = 0.3 * rng.Uniform();
  fault.duration = Between(rng, absl::Seconds(2), absl::Seconds(40));
}

Fault DrawFault(Rng& rng, const WorldSettings& world, const FaultMix& mix) {
  Fault fault;
  fault.kind = mix.kinds[rng.Below(mix.kinds.size())];
  fault.at = Between(rng, absl::ZeroDuration(), mix.window);
  fault.duration = Between(rng, absl::Milliseconds(100), absl::Seconds(5));
  switch (fault.kind) {
    case FaultKind::kCrash:
    case FaultKind::kFreeze:
    case FaultKind::kCut:
    case FaultKind::kClog:
      fault.target = DrawNode(rng, world);
      // The coordinator's state in a large world is in memory only.
      if (fault.kind == FaultKind::kCrash && fault.target == 0 && !world.coordinator_is_durable)
        fault.target = DrawShardNode(rng, world);
      // Mostly short; sometimes longer than the heartbeat timeout.
      if (Chance(rng, 0.3)) fault.duration = Between(rng, absl::Seconds(5), absl::Seconds(40));
      break;
    case FaultKind::kPowerLoss:
    case FaultKind::kDiskFull:
      fault.target = DrawShardNode(rng, world);
      break;
    case FaultKind::kWriteCrash:
    case FaultKind::kFailedSync:
    case FaultKind::kFailedAppend:
      fault.target = DrawShardNode(rng, world);
      fault.amount = static_cast<double>(rng.Below(20));
      break;
    case FaultKind::kLoseFolder:
      fault.target = Chance(rng, 0.5) ? DrawShardNode(rng, world) : DrawWorkerNode(rng, world);
      break;
    case FaultKind::kSlow:
      fault.target = DrawWorkerNode(rng, world);
      fault.amount = 2 + 20 * rng.Uniform();
      fault.duration = Between(rng, absl::Seconds(5), absl::Seconds(40));
      break;
    case FaultKind::kCutLink:
      fault.target = DrawNode(rng, world);
      fault.other = DrawNode(rng, world);
      fault.duration = Between(rng, absl::Seconds(1), absl::Seconds(30));
      break;
    case FaultKind::kClockJump:
      fault.target = DrawNode(rng, world);
      fault.amount = Chance(rng, 0.5) ? 60 * rng.Uniform() : rng.Uniform();
      break;
    case FaultKind::kDamage:
      fault.target = DrawWorkerNode(rng, world);
      fault.amount = static_cast<double>(rng.Below(uint64_t{world.segments} * kSegmentElements));
      break;
    case FaultKind::kWeather:
      DrawWeather(rng, fault);
      break;
    case FaultKind::kPoison:
      fault.target = world.NodeOfWorker(static_cast<uint32_t>(world.seed % world.workers));
      fault.amount = static_cast<double>(rng.Below(3));
      fault.duration = Between(rng, absl::Seconds(5), absl::Seconds(40));
      break;
    case FaultKind::kDeadLink:
    case FaultKind::kOldFolder:
    case FaultKind::kOlderFolder:
    case FaultKind::kOlderRecord:
    case FaultKind::kToldToEnd:
    case FaultKind::kLostTail:
    case FaultKind::kOlderCluster:
    case FaultKind::kCount:
      LONGWAVE_CHECK(false);
  }
  return fault;
}

// Whether faults of a kind that is not mixed with others happen; damage comes alone.
bool Happens(FaultKind kind, const WorldOptions& options, const FaultMix& mix, Rng& rng) {
  const bool drawn =
      options.only.empty() ? Chance(rng, 0.25) : std::ranges::count(options.only, kind) > 0;
  return drawn && std::ranges::count(mix.kinds, FaultKind::kDamage) == 0;
}

// Uses a separate stream, so that older seeds keep their worlds, except for the dead links.
void DrawDeadLinks(const WorldOptions& options, const FaultMix& mix, WorldSettings& world) {
  Rng rng(options.seed, 5);
  if (!Happens(FaultKind::kDeadLink, options, mix, rng)) return;
  for (uint64_t i = 1 + rng.Below(6); i > 0; --i) {
    world.faults.push_back({.at = Between(rng, absl::ZeroDuration(), mix.window),
                            .kind = FaultKind::kDeadLink,
                            .target = DrawWorkerNode(rng, world),
                            .other = DrawShardNode(rng, world),
                            .amount = Chance(rng, 0.5) ? 1.0 : 0.0});
  }
}

// Likewise. A shard that has lost its folder has forgotten the accepted pushes.
void DrawOldFolders(const WorldOptions& options, const FaultMix& mix, WorldSettings& world) {
  Rng rng(options.seed, 6);
  if (!Happens(FaultKind::kOldFolder, options, mix, rng) ||
      std::ranges::count(mix.kinds, FaultKind::kLoseFolder) > 0) {
    return;
  }
  for (uint64_t i = 1 + rng.Below(4); i > 0; --i) {
    world.faults.push_back({.at = Between(rng, absl::ZeroDuration(), mix.window),
                            .kind = FaultKind::kOldFolder,
                            .target = DrawWorkerNode(rng, world),
                            .duration = Between(rng, absl::Milliseconds(100), absl::Seconds(20))});
  }
}

// Likewise, for the coordinator's disk.
void DrawRecordFaults(const WorldOptions& options, const FaultMix& mix, WorldSettings& world) {
  Rng rng(options.seed, 8);
  world.record_bytes_min = uint64_t{4000} << rng.Below(5);
  std::vector<FaultKind> kinds = {FaultKind::kPowerLoss, FaultKind::kWriteCrash,
                                  FaultKind::kDiskFull, FaultKind::kFailedSync,
                                  FaultKind::kFailedAppend};
  std::erase_if(kinds, [&](FaultKind kind) {
    return !options.only.empty() && std::ranges::count(options.only, kind) == 0;
  });
  if (!Chance(rng, 0.3) || kinds.empty() || !world.coordinator_is_durable ||
      std::ranges::count(mix.kinds, FaultKind::kDamage) > 0) {
    return;
  }
  for (uint64_t i = 1 + rng.Below(5); i > 0; --i) {
    world.faults.push_back({.at = Between(rng, absl::ZeroDuration(), mix.window),
                            .kind = kinds[rng.Below(kinds.size())],
                            .target = 0,
                            .duration = Between(rng, absl::Milliseconds(100), absl::Seconds(5)),
                            .amount = static_cast<double>(rng.Below(20))});
  }
}

// Only one of the two, since the coordinator's record has the length of the shard's log. A damaged
// replica would also be forgotten with the record.
void DrawOlderState(const WorldOptions& options, WorldSettings& world) {
  const auto is_asked_for = [&](FaultKind kind) {
    return std::ranges::count(options.only, kind) > 0;
  };
  Rng rng(options.seed, 7);
  Fault fault;
  fault.kind = Chance(rng, 0.5) ? FaultKind::kOlderFolder : FaultKind::kOlderRecord;
  if (!Chance(rng, 0.3) && options.only.empty()) return;
  if (!options.only.empty() && !is_asked_for(fault.kind)) {
    fault.kind =
        is_asked_for(FaultKind::kOlderFolder) ? FaultKind::kOlderFolder : FaultKind::kOlderRecord;
    if (!is_asked_for(fault.kind)) return;
  }
  const bool is_damaged = std::ranges::count(world.faults, FaultKind::kDamage, &Fault::kind) > 0;
  if (fault.kind == FaultKind::kOlderRecord && (is_damaged || !world.coordinator_is_durable))
    return;
  fault.at = Between(rng, absl::Seconds(5), absl::Seconds(10) + absl::Seconds(4) * world.rounds);
  fault.amount = 2 + 20 * rng.Uniform();
  fault.duration = Between(rng, absl::Seconds(1), absl::Seconds(30));
  if (fault.kind == FaultKind::kOlderFolder) fault.target = DrawShardNode(rng, world);
  world.faults.push_back(fault);
}

// Likewise. Pushes in flight are then in the last checkpoint, unless that is stale.
void DrawTerminations(const WorldOptions& options, const FaultMix& mix, WorldSettings& world) {
  Rng rng(options.seed, 9);
  if (!Happens(FaultKind::kToldToEnd, options, mix, rng)) return;
  if (Chance(rng, 0.5)) world.checkpoint_rounds = static_cast<uint32_t>(2 + rng.Below(3));
  world.steps = static_cast<uint32_t>(1 + rng.Below(3));
  for (uint64_t i = 1 + rng.Below(6); i > 0; --i) {
    const absl::Duration away_max = Chance(rng, 0.3) ? absl::Seconds(40) : absl::Seconds(5);
    world.faults.push_back({.at = Between(rng, absl::ZeroDuration(), mix.window),
                            .kind = FaultKind::kToldToEnd,
                            .target = DrawWorkerNode(rng, world),
                            .duration = Between(rng, absl::Milliseconds(100), away_max),
                            .amount = Chance(rng, 0.7) ? 1.0 : 0.0});
  }
}

// Likewise.
void DrawLostTails(const WorldOptions& options, const FaultMix& mix, WorldSettings& world) {
  Rng rng(options.seed, 11);
  if (!Happens(FaultKind::kLostTail, options, mix, rng)) return;
  for (uint64_t i = 1 + rng.Below(4); i > 0; --i) {
    world.faults.push_back({.at = Between(rng, absl::Seconds(2), mix.window),
                            .kind = FaultKind::kLostTail,
                            .target = DrawShardNode(rng, world),
                            .duration = Between(rng, absl::Milliseconds(100), absl::Seconds(5))});
  }
}

// Likewise. The faults of other copies and of lost content are left to other worlds.
void DrawOlderCluster(const WorldOptions& options, const FaultMix& mix, WorldSettings& world) {
  Rng rng(options.seed, 12);
  const bool is_alone = std::ranges::none_of(world.faults, [](const Fault& fault) {
    return fault.kind == FaultKind::kOlderFolder || fault.kind == FaultKind::kOlderRecord ||
           fault.kind == FaultKind::kOldFolder || fault.kind == FaultKind::kLoseFolder ||
           fault.kind == FaultKind::kLostTail;
  });
  if (!Happens(FaultKind::kOlderCluster, options, mix, rng) || !is_alone ||
      !world.coordinator_is_durable) {
    return;
  }
  world.faults.push_back({.at = Between(rng, absl::Seconds(15), absl::Seconds(20) + mix.window),
                          .kind = FaultKind::kOlderCluster,
                          .duration = Between(rng, absl::Seconds(10), absl::Seconds(30)),
                          .amount = 8 + 20 * rng.Uniform()});
}

// Rounds are filled by chance. A kill afterwards tests the worker's state on the disk.
void DrawCrashesAfterFill(const WorldOptions& options, WorldSettings& world) {
  if (!options.only.empty()) return;
  Rng rng(options.seed, 8);
  for (uint32_t w = 0; w < world.workers; ++w) world.crashes_after_fill[w] = Chance(rng, 0.5);
}

void DrawNodes(const WorldOptions& options, WorldSettings& world) {
  Rng rng(options.seed, 10);
  world.has_nodes = options.nodes;
  // A damaged replica is named by the others, which must not be away.
  const bool is_damaged = std::ranges::count(world.faults, FaultKind::kDamage, &Fault::kind) > 0;
  for (uint32_t w = 0; w < world.workers; ++w) {
    const bool crashes = Chance(rng, 0.3) && !is_damaged;
    world.crashes_between_parts.push_back(options.nodes && options.faults && crashes);
  }
}

// Likewise. The first interval, the mean of the bounds, is that of the world without auto. The
// targets are such that some links need a larger interval and some a smaller one.
void DrawInterval(const WorldOptions& options, WorldSettings& world) {
  if (!options.fits_interval) return;
  Rng rng(options.seed, 11);
  world.steps = static_cast<uint32_t>(2 + rng.Below(4));
  const uint32_t first = world.fragments * world.steps;
  IntervalOptions interval{.steps = world.run_steps(),
                           .least = first / 2,
                           .most = first * first / (first / 2),
                           .target_share = Either(rng, {0.03, 0.1, 0.3}),
                           .quorum = world.quorum};
  if (Chance(rng, 0.3)) interval.most = first;
  world.interval = interval;
}

// Uses a separate stream, too.
void DrawStarts(const WorldOptions& options, WorldSettings& world) {
  world.starts.assign(world.workers, kStart);
  world.start_is_members = options.member_start;
  if (!options.member_start) return;
  Rng rng(options.seed, 9);
  for (uint32_t w = 0; w < world.workers; ++w) {
    if (Chance(rng, 0.5)) world.starts[w] += static_cast<float>(64 * (1 + w % 100));
  }
  world.shards_have_disks = true;
}

void DrawFaults(const WorldOptions& options, Rng& rng, WorldSettings& world) {
  const FaultMix mix = DrawMix(options, rng, world);
  for (uint32_t i = 0; i < mix.count; ++i) world.faults.push_back(DrawFault(rng, world, mix));
  DrawDeadLinks(options, mix, world);
  DrawOldFolders(options, mix, world);
  DrawRecordFaults(options, mix, world);
  DrawOlderState(options, world);
  DrawTerminations(options, mix, world);
  DrawLostTails(options, mix, world);
  DrawOlderCluster(options, mix, world);
  DrawCrashesAfterFill(options, world);
  for (const Fault& fault : world.faults)
    world.calm_after = std::max(world.calm_after, fault.at + fault.duration);
  std::stable_sort(world.faults.begin(), world.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
}

}  // namespace

std::string_view Name(Method method) {
  static constexpr std::string_view kNames[] = {"dense", "topk", "quantized"};
  return EnumName(method, kNames);
}

std::string_view Name(FaultKind kind) {
  static constexpr std::string_view kNames[] = {
      "crash",       "power loss",  "crash in a write", "lost folder",  "freeze",
      "slow",        "cut",         "cut link",         "clog",         "clock jump",
      "disk full",   "failed sync", "failed append",    "damage",       "weather",
      "dead link",   "old folder",  "poison",           "older folder", "older record",
      "told to end", "lost tail",   "older cluster"};
  static_assert(std::size(kNames) == static_cast<size_t>(FaultKind::kCount));
  return EnumName(kind, kNames);
}

WorldSettings DrawSettings(const WorldOptions& options) {
  WorldSettings world;
  world.seed = options.seed;
  world.canary = options.canary;
  Rng rng(options.seed, 1);
  DrawWorkers(options, rng, world);
  DrawMethod(options, rng, world);
  DrawTimes(rng, world);
  // A separate stream, so that older seeds keep their worlds.
  Rng beta_rng(options.seed, 4);
  world.beta = Chance(beta_rng, 0.4) ? 0 : 1;
  world.crashes_after_fill.assign(world.workers, false);
  DrawStarts(options, world);
  if (options.faults) DrawFaults(options, rng, world);
  DrawNodes(options, world);
  DrawInterval(options, world);
  if (options.member_start) {
    std::erase_if(world.faults,
                  [](const Fault& fault) { return fault.kind == FaultKind::kDamage; });
  }
  return world;
}

RoundPlan WorldSettings::MakeRoundPlan() const {
  return interval.has_value() ? RoundPlan(run_steps()) : RoundPlan(fragments * steps, run_steps());
}

PayloadFormat WorldSettings::up() const {
  static constexpr PayloadFormat kFormats[] = {
      {.selection = Selection::kAll, .codec = ValueCodec::kFp32},
      {.selection = Selection::kTopK, .codec = ValueCodec::kFp32, .k = 12},
      {.selection = Selection::kTopK, .codec = ValueCodec::kSign, .k = 8}};
  return kFormats[static_cast<size_t>(method)];
}

PayloadFormat WorldSettings::down() const {
  static constexpr PayloadFormat kFormats[] = {
      {.selection = Selection::kAll, .codec = ValueCodec::kFp32},
      {.selection = Selection::kTopK, .codec = ValueCodec::kFp32, .k = 16},
      {.selection = Selection::kTopK, .codec = ValueCodec::kInt2, .k = 16}};
  return kFormats[static_cast<size_t>(method)];
}

Manifest WorldSettings::MakeManifest() const {
  Manifest manifest;
  for (uint32_t s = 0; s < segments; ++s) {
    manifest.tensors.push_back({absl::StrCat("part-", s), {kSegmentElements}});
  }
  return manifest;
}

LayoutOptions WorldSettings::MakeLayoutOptions() const {
  return {.tiling = Tiling::kTensor,
          .block = kSegmentElements,
          .segment_tiles = 1,
          .shard_count = shards};
}

SyncOptions WorldSettings::MakeSyncOptions() const {
  SyncOptions options;
  options.up = up();
  options.beta = beta;
  options.run_seed = 1;
  options.fragments = fragments;
  return options;
}

CoordinatorOptions WorldSettings::MakeCoordinatorOptions() const {
  CoordinatorOptions options;
  options.workers_wanted = workers_wanted;
  options.shards_wanted = shards;
  options.rounds = rounds;
  if (interval.has_value()) {
    options.interval = interval;
    options.rounds = (run_steps() + interval->least - 1) / interval->least;
  }
  options.takes_other_starts = start_is_members;
  options.heartbeat_timeout = heartbeat_timeout;
  options.start_timeout = start_timeout;
  options.segment_count = [count = segments](const Manifest&, uint64_t) { return count; };
  return options;
}

DurableShardOptions WorldSettings::MakeShardOptions(uint32_t shard, uint64_t run) const {
  DurableShardOptions options;
  options.aggregator = {.run = run,
                        .run_seed = 1,
                        .shard = shard,
                        .up = up(),
                        .rho = rho,
                        .down = down(),
                        .workers = workers,
                        .weight_max = canary == Canary::kTrustingShard ? kWeightMax : 1,
                        // Honest contributions of a world differ by less than this factor.
                        .clip = canary == Canary::kTrustingShard ? 0.0 : 1e4,
                        .fragments = fragments,
                        .open_bytes_max = open_bytes_max,
                        .quorum = quorum,
                        .grace_min = grace_min,
                        .grace_max = grace_max,
                        .logs = shards_have_disks};
  options.state_rounds = state_rounds;
  options.snapshot_rounds = snapshot_rounds;
  options.keeps_start = start_is_members;
  options.join_patience = heartbeat_timeout;
  return options;
}

uint64_t WorldSettings::OpenBytesBound(bool was_restored) const {
  constexpr uint64_t kPushBytesMax = kPayloadHeadBytes + 4 * kSegmentElements + 16;
  const uint64_t of_one_segment = workers * kPushBytesMax;
  if (open_bytes_max == 0) return of_one_segment * segments;
  // A segment that is restored may become the oldest in place of another one over the limit.
  return open_bytes_max + of_one_segment * (was_restored ? segments : 1);
}

std::string WorldSettings::NodeName(uint32_t node) const {
  if (node == 0) return "coordinator";
  if (IsShard(node)) return absl::StrCat("shard ", node - 1);
  return absl::StrCat("worker ", node - 1 - shards);
}

std::string WorldSettings::Describe() const {
  std::string text = absl::StrCat(
      "seed ", seed, ": ", workers, " workers (", workers_wanted, " at the start), ", shards,
      " shards", shards_have_disks ? "" : " without disks",
      start_is_members ? ", a member's start" : "", has_nodes ? ", nodes" : "", ", ", segments,
      " segments in ", fragments, fragments == 1 ? " fragment, " : " fragments, ",
      interval.has_value() ? absl::StrCat("auto ", interval->least, " to ", interval->most,
                                          ", target ", interval->target_share, ", about ")
                           : "",
      rounds, " rounds, ", std::string(Name(method)), ", beta ", beta, ", rho ", rho, ", quorum ",
      quorum, ", grace ", absl::FormatDuration(grace_min), " to ", absl::FormatDuration(grace_max),
      ", snapshots ", state_rounds, " and ", snapshot_rounds);
  for (const Fault& fault : faults) {
    absl::StrAppend(&text, "\n  at ", absl::FormatDuration(fault.at), " for ",
                    absl::FormatDuration(fault.duration), ": ", std::string(Name(fault.kind)));
    if (fault.kind == FaultKind::kWeather) {
      absl::StrAppend(&text, " lost ", fault.weather.lost, " stalled ", fault.weather.stalled);
    } else {
      absl::StrAppend(&text, ", ", NodeName(fault.target));
    }
    if (fault.kind == FaultKind::kCutLink || fault.kind == FaultKind::kDeadLink)
      absl::StrAppend(&text, " to ", NodeName(fault.other));
    if (fault.amount > 0) absl::StrAppend(&text, ", ", fault.amount);
  }
  return text;
}

}  // namespace longwave::sim
