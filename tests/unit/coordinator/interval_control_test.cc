#include "server/coordinator/interval_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/base/rng.h"

namespace longwave {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;

IntervalOptions Bounds(uint32_t least = 2, uint32_t most = 100) {
  return {.steps = 100'000, .least = least, .most = most, .target_share = 0.03, .quorum = 0.5};
}

// A member's links and steps, in seconds.
struct Place {
  double step = 0.1;
  double sync = 0.05;  // a sync's own cost: encoding, the link, decoding
};

// Rounds of members that wait for each other, as in a run: each round ends with the last of those
// that are in time.
class TrainingRun {
 public:
  TrainingRun(const IntervalOptions& options, std::vector<Place> places)
      : control_(options), places_(std::move(places)), inner_steps_(control_.First()) {}

  std::vector<Place>& places() { return places_; }
  uint32_t inner_steps() const { return inner_steps_; }
  uint32_t changes() const { return changes_; }
  const std::string& reason() const { return reason_; }
  const IntervalControl& control() const { return control_; }
  // Rounds wait for the first so many members alone, by default for all.
  void WaitFor(size_t count) { waited_for_ = count; }

  void Rounds(uint32_t count, double noise = 0) {
    for (uint32_t i = 0; i < count; ++i) {
      std::vector<double> computing, own;
      double end = 0;
      for (size_t m = 0; m < places_.size(); ++m) {
        const auto noisy = [&](double seconds) {
          return seconds * (1 + noise * (2 * rng_.Uniform() - 1));
        };
        computing.push_back(noisy(places_[m].step) * inner_steps_);
        own.push_back(computing.back() + noisy(places_[m].sync));
        if (m < waited_for_) end = std::max(end, own.back());
      }
      std::vector<RoundWork> work;
      for (uint32_t m = 0; m < places_.size(); ++m)
        work.push_back({m, computing[m], std::max(end, own[m]) - computing[m]});
      control_.Add(round_++, inner_steps_, work);
      const auto choice = control_.Next(inner_steps_, ++since_change_);
      EXPECT_EQ(choice.reason.empty(), choice.inner_steps == inner_steps_);
      if (choice.inner_steps == inner_steps_) continue;
      EXPECT_LE(choice.inner_steps, 2 * inner_steps_);
      EXPECT_GE(2 * choice.inner_steps, inner_steps_);
      inner_steps_ = choice.inner_steps;
      reason_ = choice.reason;
      since_change_ = 0;
      ++changes_;
    }
  }

 private:
  IntervalControl control_;
  std::vector<Place> places_;
  size_t waited_for_ = 1000;
  uint32_t inner_steps_;
  uint32_t round_ = 0;
  uint32_t since_change_ = 0;
  uint32_t changes_ = 0;
  std::string reason_;
  Rng rng_{7};
};

TEST(IntervalControl, BeginsWithTheGeometricMeanOfTheBounds) {
  EXPECT_EQ(IntervalControl(Bounds()).First(), 14u);
  EXPECT_EQ(IntervalControl(Bounds(5, 5)).First(), 5u);
  EXPECT_EQ(IntervalControl(Bounds(1, 1'000'000)).First(), 1000u);
}

TEST(IntervalControl, IsTheSmallestThatLosesTheTargetOnConstantLinks) {
  for (const double sync : {0.005, 0.02, 0.05, 0.1, 0.2}) {
    // H with which sync / (sync + H·step) is 3 %.
    const double exact = sync * 0.97 / (0.03 * 0.1);
    TrainingRun run(Bounds(), std::vector<Place>(4, {.step = 0.1, .sync = sync}));
    run.Rounds(60);
    const double wanted = std::clamp(exact, 2.0, 100.0);
    EXPECT_THAT(run.inner_steps(), AllOf(Ge(wanted / 1.25), Le(wanted * 1.5 + 1))) << sync;
    const uint32_t there = run.inner_steps(), changes = run.changes();
    run.Rounds(100);
    EXPECT_EQ(run.inner_steps(), there);
    EXPECT_EQ(run.changes(), changes);
  }
}

TEST(IntervalControl, FollowsLinksThatGoFrom100To10AndBack) {
  // A round's 0.25 MB take 0.02 s at 100 Mbit/s and 0.2 s at 10.
  TrainingRun run(Bounds(), std::vector<Place>(4, {.step = 0.1, .sync = 0.02}));
  run.Rounds(40);
  const uint32_t fast = run.inner_steps();
  EXPECT_THAT(fast, AllOf(Ge(6u), Le(10u)));
  for (Place& place : run.places()) place.sync = 0.2;
  const uint32_t before = run.changes();
  run.Rounds(20);
  EXPECT_THAT(run.inner_steps(), AllOf(Ge(54u), Le(80u)));
  EXPECT_LE(run.changes() - before, 4u);  // twofold at a time
  EXPECT_THAT(run.reason(), HasSubstr("a sync costs 0.2 s and a step takes 0.1 s"));
  EXPECT_THAT(run.reason(), HasSubstr("wanted at most 3.0 %"));
  for (Place& place : run.places()) place.sync = 0.02;
  run.Rounds(40);
  EXPECT_THAT(run.inner_steps(), AllOf(Ge(6u), Le(10u)));
}

TEST(IntervalControl, NoiseDoesNotMakeItFlap) {
  TrainingRun run(Bounds(), std::vector<Place>(4, {.step = 0.1, .sync = 0.08}));
  run.Rounds(60, /*noise=*/0.15);
  const uint32_t changes = run.changes();
  run.Rounds(1000, /*noise=*/0.15);
  EXPECT_LE(run.changes() - changes, 4u);
  EXPECT_THAT(run.inner_steps(), AllOf(Ge(20u), Le(40u)));
}

TEST(IntervalControl, ASlowLinkOutsideTheQuorumSetsNoPace) {
  // The rounds do not wait for member 3, whose link takes 20 times as long.
  TrainingRun run(Bounds(), std::vector<Place>(4, {.step = 0.1, .sync = 0.05}));
  run.places()[3].sync = 1;
  run.WaitFor(3);
  run.Rounds(60);
  EXPECT_THAT(run.inner_steps(), AllOf(Ge(13u), Le(20u)));
  // With a quorum of all members it does.
  IntervalOptions all = Bounds();
  all.quorum = 1;
  TrainingRun waits(all, std::vector<Place>(4, {.step = 0.1, .sync = 0.05}));
  waits.places()[3].sync = 1;
  waits.WaitFor(3);
  waits.Rounds(60);
  EXPECT_EQ(waits.inner_steps(), 100u);
}

TEST(IntervalControl, TheWaitForSlowerStepsIsNoCostOfASync) {
  // Three members wait for the fourth, whose steps take twice as long: no H avoids that.
  TrainingRun run(Bounds(), std::vector<Place>(4, {.step = 0.1, .sync = 0.05}));
  run.places()[3].step = 0.2;
  run.Rounds(60);
  EXPECT_THAT(run.inner_steps(), AllOf(Ge(7u), Le(14u)));
  // Member 3 has steps that are too slow for the rounds, which do not wait for it.
  run.places()[3].step = 2;
  run.WaitFor(3);
  run.Rounds(60);
  EXPECT_THAT(run.inner_steps(), AllOf(Ge(13u), Le(20u)));
}

TEST(IntervalControl, StaysWithinItsBounds) {
  TrainingRun slow(Bounds(5, 20), std::vector<Place>(2, {.step = 0.001, .sync = 10}));
  slow.Rounds(50);
  EXPECT_EQ(slow.inner_steps(), 20u);
  TrainingRun fast(Bounds(5, 20), std::vector<Place>(2, {.step = 1, .sync = 0}));
  fast.Rounds(50);
  EXPECT_EQ(fast.inner_steps(), 5u);
  EXPECT_EQ(fast.control().LostShare(5), 0.0);
  TrainingRun fixed(Bounds(7, 7), std::vector<Place>(2, {.step = 0.001, .sync = 10}));
  fixed.Rounds(50);
  EXPECT_EQ(fixed.changes(), 0u);
}

TEST(IntervalControl, WaitsForRoundsEnoughAndForReportsInARow) {
  IntervalControl control(Bounds());
  EXPECT_EQ(control.SecondsOfRound(10), std::nullopt);
  const std::vector<RoundWork> work = {{0, 1.0, 1.0}, {1, 1.0, 1.0}};
  control.Add(0, 10, work);
  control.Add(1, 10, work);
  EXPECT_EQ(control.Next(10, 10).inner_steps, 10u);
  EXPECT_EQ(control.SecondsOfRound(10), 2.0);
  EXPECT_EQ(control.LostShare(10), 0.5);
  // Both have missed round 2, so their seconds are those of two rounds.
  control.Add(3, 10, work);
  EXPECT_EQ(control.Next(10, 10).inner_steps, 10u);
  control.Add(4, 10, work);
  EXPECT_THAT(control.Next(10, 1).reason, IsEmpty());  // a change just before
  EXPECT_EQ(control.Next(10, 2).inner_steps, 20u);
  EXPECT_EQ(control.Next(10, 2).reason,
            "a sync costs 1 s and a step takes 0.1 s (median of the last 3 rounds), so that syncs "
            "take 50.0 % of the time with 10 steps and 33.3 % with 20; wanted at most 3.0 %");
}

TEST(IntervalControl, SecondsThatMakeNoSenseDoNotCount) {
  IntervalControl control(Bounds());
  for (uint32_t round = 0; round < 5; ++round)
    control.Add(round, 10, std::vector<RoundWork>{{0, 0.0, 5.0}, {1, 1e308, 1e308}});
  EXPECT_EQ(control.SecondsOfRound(10), std::nullopt);
  EXPECT_EQ(control.Next(10, 10).inner_steps, 10u);
}

}  // namespace
}  // namespace longwave
