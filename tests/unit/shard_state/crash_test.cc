// The machine or the process stops at every operation of a run. Every answer stays true, and the
// run ends with the bits of an undisturbed one.
#include <map>
#include <tuple>

#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

constexpr uint32_t kWorkers = 3;
constexpr uint32_t kRounds = 7;
constexpr uint32_t kSegments[] = {2, 3};

using Place = std::pair<uint32_t, uint32_t>;  // segment, round

// Three workers push each round of each segment once they have the previous update, repeat
// unanswered pushes, and remember all answers.
class Training {
 public:
  explicit Training(uint64_t seed) : disk_(seed), rng_(seed) {}

  SimFileSystem& files() { return disk_.files; }
  ShardOnDisk& disk() { return disk_; }

  // Runs until all rounds are closed and known to all. `restart`: the kind of stop.
  void Finish(SimFileSystem::Stop restart) {
    for (int wakes = 0; !IsFinished() || !disk_.is_open(); ++wakes) {
      ASSERT_LT(wakes, 10'000) << "the run does not end";
      if (!disk_.is_open()) {
        const absl::Status opened = disk_.Open();
        if (!opened.ok() && disk_.files.crashed()) {
          disk_.files.Restart(restart);
          continue;
        }
        ASSERT_TRUE(opened.ok()) << opened;
        // The coordinator repeats the membership, since the shard's may be older.
        disk_.shard().Step(MembershipChanged{Members(1, {0, 1, 2})}, disk_.now);
      }
      Wake();
      if (disk_.files.crashed()) {
        disk_.files.Restart(restart);
        disk_.Close();
        if (second_crash_after.has_value()) {
          disk_.files.faults.crash_at = disk_.files.operations() + *second_crash_after;
          second_crash_after.reset();
        }
      }
    }
  }

  // Each accepted push is in the update of its round, and each update is as it was told.
  void Check() {
    for (const auto& [place, payload] : merged_) {
      const auto effects = disk_.Do({TestPull(0, place.second, place.first)});
      const auto sent = AllSent<MergedFrame>(effects);
      if (sent.empty()) {  // dropped with the log: snapshots cover it
        EXPECT_THAT(Outcomes(effects), ::testing::ElementsAre(Outcome::kCompacted));
        continue;
      }
      EXPECT_EQ(BytesOf(sent[0].payload), payload);
      EXPECT_EQ(sent[0].header.contributions, kWorkers) << "an accepted push is missing";
    }
  }

  const std::map<Place, std::vector<std::byte>>& merged() const { return merged_; }

  std::optional<uint64_t> second_crash_after;  // operations after the first crash

 private:
  bool IsFinished() const {
    return std::ranges::all_of(next_, [](const auto& each) { return each.second >= kRounds; }) &&
           next_.size() == kWorkers * std::size(kSegments);
  }

  void Wake() {
    std::vector<ShardEvent> events;
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      for (const uint32_t segment : kSegments) {
        const uint32_t round = next_[{worker, segment}];
        if (round >= kRounds || rng_.Below(2) == 0) continue;
        if (accepted_.contains({worker, segment, round})) {
          events.push_back(TestPull(worker, round, segment));
        } else {
          events.push_back(TestPush(worker, round, segment));
        }
      }
    }
    for (const ShardEvent& event : events) disk_.shard().Step(event, disk_.now);
    // A process that ends in the commit has told nothing; one that ends in Tend has told all.
    const std::vector<ShardEffect> effects = disk_.shard().Commit(disk_.now);
    if (disk_.files.crashed()) return;
    for (const ShardEffect& effect : effects) OnEffect(effect);
    disk_.shard().Tend(disk_.now);
    if (disk_.files.crashed()) return;
    disk_.AnswerRequests(effects);
  }

  void OnEffect(const ShardEffect& effect) {
    if (const auto answer = SentIn<AnswerFrame>(effect)) {
      const AnswerFrame& header = answer->header;
      ASSERT_NE(header.outcome, Outcome::kRejected) << answer->reason();
      ASSERT_NE(header.outcome, Outcome::kLate) << "nobody is left out of a round here";
      if (header.outcome == Outcome::kAccepted || header.outcome == Outcome::kDuplicate) {
        accepted_[{header.worker, header.segment, header.round}] = true;
      }
    } else if (const auto merged = SentIn<MergedFrame>(effect)) {
      const Place place{merged->header.segment, merged->header.round};
      const auto [known, is_new] = merged_.emplace(place, BytesOf(merged->payload));
      ASSERT_EQ(known->second, BytesOf(merged->payload)) << "an update that was told has changed";
      for (const uint32_t worker : merged->workers) {
        uint32_t& next = next_[{worker, merged->header.segment}];
        next = std::max(next, merged->header.round + 1);
      }
    }
  }

  ShardOnDisk disk_;
  Rng rng_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> next_;  // by worker, segment
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, bool> accepted_;
  std::map<Place, std::vector<std::byte>> merged_;
};

class CrashAtEveryOperation : public ::testing::TestWithParam<SimFileSystem::Stop> {};

TEST_P(CrashAtEveryOperation, LosesNothingAndChangesNothing) {
  Training quiet(1);
  ASSERT_NO_FATAL_FAILURE(quiet.Finish(GetParam()));
  const uint64_t operations = quiet.files().operations();
  ASSERT_GT(operations, 200u);
  for (uint64_t crash_at = 0; crash_at < operations; ++crash_at) {
    SCOPED_TRACE(crash_at);
    Training run(1 + crash_at % 5);
    run.files().faults.crash_at = crash_at;
    ASSERT_NO_FATAL_FAILURE(run.Finish(GetParam()));
    run.Check();
    ASSERT_EQ(run.merged(), quiet.merged());
    for (const uint32_t segment : kSegments) {
      const SegmentSnapshot state = run.disk().shard().aggregator()->Export(segment);
      const SegmentSnapshot wanted = quiet.disk().shard().aggregator()->Export(segment);
      ASSERT_EQ(state.open_round, wanted.open_round);
      ASSERT_EQ(state.residual, wanted.residual);
    }
    // And once more from the disk alone.
    const auto residual = run.disk().shard().aggregator()->Export(2).residual;
    run.files().Restart(GetParam());
    ASSERT_TRUE(run.disk().Open().ok());
    ASSERT_EQ(run.disk().shard().aggregator()->Export(2).residual, residual);
    if (HasFailure()) return;
  }
}

// Twice: also in the midst of the recovery from the first.
TEST_P(CrashAtEveryOperation, AlsoWhileItRecovers) {
  Training quiet(1);
  ASSERT_NO_FATAL_FAILURE(quiet.Finish(GetParam()));
  const uint64_t operations = quiet.files().operations();
  for (uint64_t crash_at = 20; crash_at < operations; crash_at += 23) {
    for (uint64_t after = 0; after < 12; ++after) {
      SCOPED_TRACE(testing::Message() << crash_at << " and " << after << " later");
      Training run(1 + crash_at % 5);
      run.files().faults.crash_at = crash_at;
      run.second_crash_after = after;
      ASSERT_NO_FATAL_FAILURE(run.Finish(GetParam()));
      ASSERT_EQ(run.merged(), quiet.merged());
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, CrashAtEveryOperation,
                         ::testing::Values(SimFileSystem::Stop::kPower,
                                           SimFileSystem::Stop::kProcess),
                         [](const auto& stop) {
                           return stop.param == SimFileSystem::Stop::kPower ? "Power" : "Process";
                         });

// The test of this test: a disk that lies about syncs is found out.
TEST(CrashAtAnyOperation, FindsADiskThatLies) {
  uint32_t lost = 0;
  for (uint64_t seed = 1; seed < 20 && lost == 0; ++seed) {
    ShardOnDisk disk(seed);
    ASSERT_TRUE(disk.Open().ok());
    disk.Do({MembershipChanged{Members(1, {0, 1})}});
    disk.files.faults.syncs_lie = true;
    const auto told = disk.Do({TestPush(0, 0, 2)});
    ASSERT_THAT(Outcomes(told), ::testing::ElementsAre(Outcome::kAccepted));
    disk.files.Restart(SimFileSystem::Stop::kPower);
    disk.files.faults.syncs_lie = false;
    if (!disk.Open().ok()) continue;
    disk.Do({MembershipChanged{Members(1, {0, 1})}});
    lost += Outcomes(disk.Do({TestPush(0, 0, 2)})).at(0) != Outcome::kDuplicate;
  }
  EXPECT_GT(lost, 0u);
}

}  // namespace
}  // namespace longwave
