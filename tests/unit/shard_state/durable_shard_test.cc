// A shard's durable state: its content, its times, and the answers that depend on it.
#include "server/shard_state/durable_shard.h"

#include "gmock/gmock.h"
#include "tests/support/store_helpers.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DurableShardOnDisk : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(disk_.Open().ok()); }

  ShardOnDisk disk_;
};

TEST_F(DurableShardOnDisk, NothingIsToldBeforeTheCommit) {
  disk_.Do({MembershipChanged{Members(1, {0})}});
  const uint64_t syncs = disk_.files.syncs();
  disk_.shard().Step(TestPush(0, 0, 2), disk_.now);
  disk_.shard().Step(TestPush(0, 0, 3), disk_.now);
  EXPECT_EQ(disk_.files.syncs(), syncs);
  const auto effects = disk_.shard().Commit(disk_.now);
  EXPECT_EQ(disk_.files.syncs(), syncs + 1) << "one sync for the whole group";
  EXPECT_THAT(Outcomes(effects), ElementsAre(Outcome::kAccepted, Outcome::kAccepted));
  EXPECT_EQ(AllSent<MergedFrame>(effects).size(), 2u);
  EXPECT_EQ(disk_.shard().store()->log().durable_sequence(),
            disk_.shard().store()->log().next_sequence());
}

TEST(DurableShard, EffectsNameTheEventTheyFollowFrom) {
  ShardOnDisk disk;
  disk.options.snapshot_rounds = 100;  // no snapshot requests in this test
  ASSERT_TRUE(disk.Open().ok());
  disk.shard().Step(MembershipChanged{Members(1, {0, 1})}, disk.now);
  const uint64_t first = disk.shard().Step(TestPush(0, 0, 2), disk.now);
  const uint64_t second = disk.shard().Step(TestPush(1, 0, 2), disk.now);
  const auto effects = disk.shard().Commit(disk.now);
  ASSERT_EQ(effects.size(), 3u);
  EXPECT_EQ(effects[0].event, first);
  EXPECT_EQ(effects[1].event, second);
  EXPECT_EQ(effects[2].event, second);
}

TEST_F(DurableShardOnDisk, ARoundThatWasWholeClosesAfterAKill) {
  disk_.Do({MembershipChanged{Members(1, {0, 1})}, TestPush(0, 0, 2)});
  // Only worker 0 is left, but the shard ends before it hears of it.
  disk_.files.Restart(SimFileSystem::Stop::kPower);
  ASSERT_TRUE(disk_.Open().ok());
  const auto effects = disk_.Do({MembershipChanged{Members(2, {0})}});
  ASSERT_EQ(AllSent<MergedFrame>(effects).size(), 1u);
  disk_.files.Restart(SimFileSystem::Stop::kPower);
  ASSERT_TRUE(disk_.Open().ok());
  const auto again = disk_.Do({TestPull(0, 0, 2)});
  ASSERT_EQ(AllSent<MergedFrame>(again).size(), 1u);
  EXPECT_EQ(BytesOf(AllSent<MergedFrame>(again)[0].payload),
            BytesOf(AllSent<MergedFrame>(effects)[0].payload));
}

TEST_F(DurableShardOnDisk, OlderRoundsAreAnsweredFromTheLog) {
  disk_.Do({MembershipChanged{Members(1, {0, 1})}});
  std::vector<std::vector<std::byte>> payloads;
  for (uint32_t round = 0; round < 2; ++round) {
    payloads.push_back(BytesOf(AllSent<MergedFrame>(disk_.PushAll({0, 1}, round)).at(0).payload));
  }
  disk_.Do({MembershipChanged{Members(2, {0})}});
  disk_.PushAll({0}, 2);
  disk_.Do({MembershipChanged{Members(3, {0, 1})}});
  disk_.PushAll({0, 1}, 3);
  disk_.PushAll({0, 1}, 4);

  for (uint32_t round = 0; round < 2; ++round) {
    const auto effects = disk_.Do({TestPull(1, round, 2)});
    ASSERT_EQ(effects.size(), 1u);
    const auto merged = AllSent<MergedFrame>(effects).at(0);
    EXPECT_THAT(merged.workers, ElementsAre(1u));
    EXPECT_EQ(merged.header.round, round);
    EXPECT_EQ(BytesOf(merged.payload), payloads[round]);
  }
  // Worker 1 had no part in round 2; in round 1 it had.
  const auto late = disk_.Do({TestPush(1, 2, 2), TestPush(1, 1, 2)});
  EXPECT_THAT(Outcomes(late), ElementsAre(Outcome::kLate, Outcome::kDuplicate));
  EXPECT_EQ(AllSent<MergedFrame>(late).size(), 2u);
  EXPECT_EQ(disk_.shard().state().pushes_late, 1u);
  EXPECT_EQ(disk_.shard().state().pushes_duplicate, 1u);
  EXPECT_EQ(AllSent<AnswerFrame>(late)[0].header.open_round, 5u) << "the open round";
  // By this a process whose predecessor made another push of round 1 knows that.
  EXPECT_EQ(AllSent<AnswerFrame>(late)[0].header.held_crc, 0u);
  EXPECT_EQ(AllSent<AnswerFrame>(late)[1].header.held_crc, TestPush(1, 1, 2).header.payload_crc);
}

TEST(DurableShard, WithoutAFolderOlderRoundsAreGone) {
  auto shard = DurableShard::Open(TestOptions(), FourSegments(), nullptr);
  ASSERT_TRUE(shard.ok()) << shard.status();
  const absl::Time now = absl::UnixEpoch();
  (*shard)->Step(MembershipChanged{Members(1, {0})}, now);
  for (uint32_t round = 0; round < 3; ++round) (*shard)->Step(TestPush(0, round, 2), now);
  (*shard)->Commit(now);
  (*shard)->Step(TestPull(0, 0, 2), now);
  (*shard)->Step(TestPush(0, 0, 2), now);
  (*shard)->Step(TestPull(0, 2, 2), now);
  const auto effects = (*shard)->Commit(now);
  EXPECT_THAT(Outcomes(effects), ElementsAre(Outcome::kCompacted, Outcome::kCompacted));
  EXPECT_EQ(AllSent<MergedFrame>(effects).size(), 1u);
  EXPECT_EQ((*shard)->NextDue(), absl::InfiniteFuture());
  EXPECT_THAT((*shard)->UnconfirmedSnapshots(), IsEmpty());
}

TEST_F(DurableShardOnDisk, TheLogIsDroppedOnceTwoSnapshotsOfAllCoverIt) {
  disk_.Do({MembershipChanged{Members(1, {0, 1})}});
  uint64_t largest = 0;
  for (uint32_t round = 0; round < 60; ++round) {
    disk_.AnswerRequests(disk_.PushAll({0, 1}, round));
    largest = std::max(largest, disk_.shard().state().log_bytes);
    const auto states = ReplayFromMin(disk_.shard().store()->snapshots(), SnapshotKind::kState);
    const auto models = ReplayFromMin(disk_.shard().store()->snapshots(), SnapshotKind::kModel);
    if (round < 5) {
      EXPECT_TRUE(disk_.Do({TestPull(0, 0, 2)}).size() == 1) << round;
      continue;
    }
    // Whatever is still needed is there.
    std::optional<uint64_t> first;
    ASSERT_TRUE(disk_.shard()
                    .store()
                    ->log()
                    .Replay(std::min(states.value(), models.value()),
                            [&](uint64_t sequence, const LogRecord&) {
                              if (!first.has_value()) first = sequence;
                              return absl::OkStatus();
                            })
                    .ok());
    EXPECT_LE(first.value(), std::min(states.value(), models.value()));
  }
  EXPECT_LT(largest, 12'000u) << "the log does not grow with the rounds";
  EXPECT_THAT(Outcomes(disk_.Do({TestPull(0, 0, 2)})), ElementsAre(Outcome::kCompacted));
  // The dropped files had the membership's record, which was written again.
  disk_.files.Restart(SimFileSystem::Stop::kPower);
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, 60, 2)})), ElementsAre(Outcome::kAccepted));
}

TEST_F(DurableShardOnDisk, WithoutModelSnapshotsTheLogIsKept) {
  disk_.Do({MembershipChanged{Members(1, {0})}});
  for (uint32_t round = 0; round < 30; ++round) disk_.PushAll({0}, round);  // no member answers
  EXPECT_EQ(AllSent<MergedFrame>(disk_.Do({TestPull(0, 0, 2)})).size(), 1u);
}

TEST(DurableShard, WhereNobodyCanCatchUpTheShardsOwnStateDecides) {
  DurableShardOptions options = TestOptions();
  options.can_catch_up = false;
  ShardOnDisk disk(1, options);
  ASSERT_TRUE(disk.Open().ok());
  disk.Do({MembershipChanged{Members(1, {0})}});
  for (uint32_t round = 0; round < 30; ++round) {
    EXPECT_THAT(AllSent<RequestFrame>(disk.PushAll({0}, round)), IsEmpty());
  }
  EXPECT_THAT(Outcomes(disk.Do({TestPull(0, 0, 2)})), ElementsAre(Outcome::kCompacted));
  // Whether the push is in that merge is no longer known.
  EXPECT_THAT(Outcomes(disk.Do({TestPush(0, 0, 2)})), ElementsAre(Outcome::kCompacted));
}

TEST_F(DurableShardOnDisk, ADamagedStateSnapshotFallsBackOnTheOneBefore) {
  disk_.Do({MembershipChanged{Members(1, {0, 1})}});
  for (uint32_t round = 0; round < 20; ++round) disk_.AnswerRequests(disk_.PushAll({0, 1}, round));
  const SegmentSnapshot before = disk_.shard().aggregator()->Export(2);
  const auto latest = disk_.shard().store()->snapshots().Latest(SnapshotKind::kState, 2);
  ASSERT_TRUE(latest.has_value());
  disk_.Close();
  disk_.files.Corrupt("state/snap/" + SnapshotName(latest->key), 100, std::byte{1});
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_EQ(disk_.shard().aggregator()->Export(2).residual, before.residual);
  EXPECT_THAT(disk_.shard().TakeNotices(), ::testing::Contains(HasSubstr("hash")));
}

TEST_F(DurableShardOnDisk, WithoutAnyUsableStateItSaysSoInsteadOfBeginningAnew) {
  disk_.Do({MembershipChanged{Members(1, {0, 1})}});
  for (uint32_t round = 0; round < 20; ++round) disk_.AnswerRequests(disk_.PushAll({0, 1}, round));
  const auto snapshots = disk_.shard().store()->snapshots().All();
  disk_.Close();
  for (const SnapshotHeader& each : snapshots) {
    if (each.key.kind == SnapshotKind::kState && each.key.first_segment == 3) {
      disk_.files.Corrupt("state/snap/" + SnapshotName(each.key), 100, std::byte{1});
    }
  }
  const absl::Status opened = disk_.Open();
  EXPECT_THAT(std::string(opened.message()), HasSubstr("segment 3: no state snapshot"));
}

TEST(DurableShard, RefusesOptionsOutOfRange) {
  DurableShardOptions options = TestOptions();
  options.model_arrays = 9;
  EXPECT_TRUE(
      absl::IsInvalidArgument(DurableShard::Open(options, FourSegments(), nullptr).status()));
}

// Until the coordinator has judged them the parameters of all segments may be held at once.
TEST(DurableShard, WantsMemoryForASnapshotOfEverySegment) {
  const auto wanted = [](uint32_t arrays, bool can_catch_up) {
    uint64_t low = 1, high = 1'000'000;
    while (low < high) {
      const uint64_t available = (low + high) / 2;
      DurableShardOptions options = TestOptions();
      options.aggregator.available_bytes = available;
      options.model_arrays = arrays;
      options.can_catch_up = can_catch_up;
      ShardOnDisk disk(1, options);
      const absl::Status opened = disk.Open();
      EXPECT_TRUE(opened.ok() || absl::IsResourceExhausted(opened)) << opened;
      (opened.ok() ? high : low) = available + (opened.ok() ? 0 : 1);
    }
    return low;
  };
  const uint64_t without = wanted(1, false);
  constexpr uint64_t kSnapshotBytes = 2 * kTileSize * sizeof(float);
  EXPECT_EQ(wanted(1, true), without + kSnapshotBytes);
  EXPECT_EQ(wanted(2, true), without + 2 * kSnapshotBytes);
}

TEST(DurableShard, LowersALimitOfPushesThatNobodyAskedFor) {
  DurableShardOptions options = TestOptions();
  options.aggregator.workers = 1000;
  options.aggregator.open_bytes_max = 1'000'000'000;
  options.aggregator.available_bytes = 1'000'000'000;
  {
    ShardOnDisk disk(1, options);
    ASSERT_TRUE(disk.Open().ok());
    EXPECT_EQ(disk.shard().open_bytes_max(), 1'000'000'000u);
  }
  // The memory that all pushes of two segments need, and a little less.
  uint64_t low = 1, high = 1'000'000'000;
  while (low < high) {
    options.aggregator.available_bytes = (low + high) / 2;
    const bool opens = ShardOnDisk(1, options).Open().ok();
    (opens ? high : low) = options.aggregator.available_bytes + (opens ? 0 : 1);
  }
  options.aggregator.available_bytes = low - 10;
  EXPECT_TRUE(absl::IsResourceExhausted(ShardOnDisk(1, options).Open()));
  options.lowers_open_bytes = true;
  ShardOnDisk disk(1, options);
  ASSERT_TRUE(disk.Open().ok());
  EXPECT_LT(disk.shard().open_bytes_max(), low);
  EXPECT_GT(disk.shard().open_bytes_max(), 1u);
}

}  // namespace
}  // namespace longwave
