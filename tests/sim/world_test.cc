// The simulator's own promises, and a part of the nightly seeds.
#include "tests/sim/world.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/canary.h"
#include "tests/sim/settings.h"

namespace longwave::sim {
namespace {

const std::vector<FaultKind> kPoisonAndCrashes = {FaultKind::kPoison,     FaultKind::kCrash,
                                                  FaultKind::kPowerLoss,  FaultKind::kWriteCrash,
                                                  FaultKind::kFailedSync, FaultKind::kWeather};

WorldResult RunSeed(const WorldOptions& options) { return RunWorld(DrawSettings(options)); }

// A world in which no rule may be broken.
WorldResult ExpectHolds(const WorldOptions& options) {
  const WorldSettings settings = DrawSettings(options);
  WorldResult result = RunWorld(settings);
  EXPECT_EQ(result.violation, "") << settings.Describe();
  return result;
}

TEST(SimWorld, WithoutFaultsEveryWorkerIsInEveryMerge) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    WorldOptions options{.seed = seed, .workers = 4, .faults = false};
    const WorldSettings settings = DrawSettings(options);
    const WorldResult result = RunWorld(settings);
    EXPECT_EQ(result.violation, "") << settings.Describe();
    if (settings.quorum == 1) {
      EXPECT_EQ(result.pushes_merged, uint64_t{4} * settings.segments * settings.rounds);
    }
  }
}

TEST(SimWorld, OneSeedHasOneTrace) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(RunSeed({.seed = seed}).trace_hash, RunSeed({.seed = seed}).trace_hash)
        << "seed " << seed;
  }
}

TEST(SimWorld, AnotherSeedHasAnotherTrace) {
  EXPECT_NE(RunSeed({.seed = 1}).trace_hash, RunSeed({.seed = 2}).trace_hash);
}

TEST(SimWorld, SeedsHoldWithFaults) {
  uint64_t merged = 0;
  uint64_t unknown = 0;
  for (uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    const WorldResult result = ExpectHolds({.seed = seed});
    merged += result.pushes_merged;
    unknown += result.unknown_fates + result.pushes_lost;
  }
  // No invariant limits these pushes, so they must stay limited to dropped logs and lost folders.
  EXPECT_LE(unknown * 1000, merged)
      << unknown << " pushes of unknown fate, " << merged << " merged";
}

// Seeds that once ended in a violation, beyond the seeds of the usual tests.
TEST(SimWorld, SeedsThatFailedHold) {
  for (const uint64_t seed :
       {4751,   7419,   7613,   9233,  13866,  23639,  28429,  1256,   3971,   4322,   8177,
        16565,  17335,  19852,  27083, 31245,  35905,  42666,  44643,  44927,  70431,  79406,
        85761,  94357,  97192,  97890, 102504, 111136, 121454, 127668, 153803, 173115, 187204,
        190709, 307961, 314441, 39164, 39915,  46891,  69628,  78839}) {
    ExpectHolds({.seed = seed});
  }
}

TEST(SimWorld, SeedsThatFailedWithFragmentsHold) {
  for (const uint64_t seed : {2262, 3546, 7402, 700604, 717804}) {
    ExpectHolds({.seed = seed, .fragments = true});
  }
}

TEST(SimWorld, SeedsThatFailedWithNodesHold) {
  for (const uint64_t seed : {1254, 1620, 1891, 4907, 5016, 9533})
    ExpectHolds({.seed = seed, .nodes = true});
}

TEST(SimWorld, SeedsThatFailedWithAFittedIntervalHold) {
  for (const uint64_t seed : {7648, 9069, 23015})
    ExpectHolds({.seed = seed, .fits_interval = true});
}

// The rules hold for any number of workers, also where no other replica can repair one.
TEST(SimWorld, AnyNumberOfWorkersHoldsWithFaults) {
  for (const auto& [workers, seeds] : {std::pair(1u, 100u), {12u, 100u}, {40u, 40u}, {100u, 10u}}) {
    for (uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
      ExpectHolds({.seed = seed, .workers = workers});
    }
  }
}

// The oldest segment gets memory first, so a small limit suffices.
TEST(SimWorld, FragmentsCloseInLittleMemory) {
  uint64_t busy = 0;
  for (uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    busy += ExpectHolds({.seed = seed, .fragments = true}).probes.count(Probe::kPushBusy);
  }
  EXPECT_GT(busy, 0u);
}

// A worker with other first weights than the run's takes part.
TEST(SimWorld, AnyStartLeadsToOneModel) {
  for (uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    ExpectHolds({.seed = seed, .fragments = seed % 3 == 0, .member_start = true});
  }
}

// Nodes of several ranks, which come back with another number of them.
TEST(SimWorld, NodesHoldWithFaults) {
  for (uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    ExpectHolds(
        {.seed = seed, .fragments = seed % 3 == 0, .member_start = seed % 5 == 0, .nodes = true});
  }
}

// The coordinator decides the inner steps of rounds while the run trains.
TEST(SimWorld, AFittedIntervalIsOneForAll) {
  uint64_t changed = 0;
  for (uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    changed += ExpectHolds({.seed = seed,
                            .fragments = seed % 3 == 0,
                            .member_start = seed % 5 == 0,
                            .nodes = seed % 7 == 0,
                            .fits_interval = true})
                   .probes.count(Probe::kIntervalChanged);
  }
  EXPECT_GT(changed, 0u);
}

// The others' hashes show a late and damaged replica last.
TEST(SimWorld, WhoIsDamagedAndLateIsMended) {
  for (uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    ExpectHolds({.seed = seed, .only = {FaultKind::kDamage, FaultKind::kSlow}});
  }
}

// A member that poisons its pushes harms no other, under any fault but a loss of the shards' usual
// norm.
TEST(SimWorld, WhoPoisonsHarmsNobody) {
  for (uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    ExpectHolds({.seed = seed, .only = kPoisonAndCrashes});
  }
  // The poisoned worker ended, with the last copy of what a shard had lost.
  ExpectHolds({.seed = 910354, .only = {FaultKind::kPoison, FaultKind::kLoseFolder}});
}

TEST(SimWorld, AThousandWorkersFinish) {
  EXPECT_EQ(
      ExpectHolds({.seed = 1, .workers = 1000, .shards = 2, .rounds = 2, .faults = false}).rounds,
      2u);
}

// Every rare branch is reached by some seed of the usual tests.
TEST(SimWorld, ProbesAreReached) {
  Probes probes;
  uint64_t seed = 1;
  for (; seed <= 3000 && !probes.Missed().empty(); ++seed) {
    WorldOptions options{.seed = seed};
    if (seed % 8 == 0) options.only = {FaultKind::kLoseFolder, FaultKind::kCut};
    if (seed % 8 == 1) options.only = kPoisonAndCrashes;
    options.member_start = seed % 8 == 2;
    options.nodes = seed % 8 == 3;
    options.fits_interval = seed % 8 == 4;
    probes.Add(RunSeed(options).probes);
  }
  for (const Probe probe : probes.Missed()) ADD_FAILURE() << "never reached: " << Name(probe);
}

class SimCanary : public testing::TestWithParam<Canary> {};

// The canaries show that the simulator finds violations.
TEST_P(SimCanary, IsFoundWithinAThousandSeeds) {
  WorldOptions options;
  if (GetParam() == Canary::kTrustingShard) options.only = kPoisonAndCrashes;
  options.member_start = GetParam() == Canary::kOwnStart;
  options.fits_interval =
      GetParam() == Canary::kOwnInterval || GetParam() == Canary::kUnkeptInterval;
  for (options.seed = 1; options.seed <= 1000; ++options.seed) {
    options.canary = GetParam();
    if (RunSeed(options).violation.empty()) continue;
    options.canary = Canary::kNone;
    EXPECT_EQ(RunSeed(options).violation, "") << "not the planted bug: seed " << options.seed;
    return;
  }
  ADD_FAILURE() << "the planted bug " << Name(GetParam()) << " was not found";
}

std::vector<Canary> Canaries() {
  std::vector<Canary> canaries;
  for (size_t i = 1; i < kCanaryCount; ++i) canaries.push_back(static_cast<Canary>(i));
  return canaries;
}
INSTANTIATE_TEST_SUITE_P(All, SimCanary, testing::ValuesIn(Canaries()), [](const auto& info) {
  std::string name(Name(info.param));
  for (char& letter : name) letter = letter == '-' ? '_' : letter;
  return name;
});

}  // namespace
}  // namespace longwave::sim
