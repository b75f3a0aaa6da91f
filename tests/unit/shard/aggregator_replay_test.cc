#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <vector>

#include "tests/support/sent_frame.h"
#include "tests/unit/shard/aggregator_life.h"

// An aggregator that comes back from snapshots and a log is the one that wrote them.

namespace longwave {
namespace {

using testing::IsEmpty;

// With E and without, clipped and not, with a quorum and with all.
std::vector<AggregatorOptions> AllKinds() {
  std::vector<AggregatorOptions> kinds(4, Base());
  kinds[1].clip = 1.5;
  kinds[2].up = kinds[2].down = kAllFp32;
  kinds[2].rho = 1;
  kinds[3].quorum = 1;
  kinds[3].clip = 2;
  kinds[3].down = {Selection::kAll, ValueCodec::kBf16, 0};
  return kinds;
}

// A shard may come back with another codec for pushes.
TEST(AggregatorReplay, TakesPushesOfTheCodecOfTheirTime) {
  AggregatorOptions options = Base();
  options.up = options.down = kAllFp32;
  Life life(options, 1);
  life.Run(100);
  options.up.codec = ValueCodec::kInt8;
  auto again = Aggregator::Create(options, ReplayLayout());
  ASSERT_TRUE(again.ok()) << again.status();
  ReplayAll(life.log(), *again);
  ExpectEqual(*again, life.aggregator());
}

TEST(AggregatorReplay, OfAWholeHistoryGivesTheSameShardToTheBit) {
  for (const AggregatorOptions& options : AllKinds()) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      Life life(options, seed);
      life.Run(400);
      EXPECT_GT(life.closed(), 20);
      if (options.clip > 0) {
        EXPECT_GT(life.clipped(), 5);
      }

      Aggregator again = life.Made();
      ReplayAll(life.log(), again);
      ExpectEqual(again, life.aggregator());
      EXPECT_EQ(again.NextDue(), absl::InfinitePast());
      EXPECT_EQ(again.state().pushes_accepted, 0u);  // counts are those of a process
      // Both behave alike: they close and answer the same.
      const auto same = [&](const AggregatorEvent& event) {
        const auto a = life.Do(event);
        const auto b = again.Step(event, life.now());
        ASSERT_EQ(a.size(), b.size());
        for (size_t i = 0; i < a.size(); ++i) {
          ASSERT_EQ(a[i].what.index(), b[i].what.index());
          if (const auto answer = SentIn<AnswerFrame>(a[i])) {
            EXPECT_EQ(Sent<AnswerFrame>(b[i]).header, answer->header);
          } else if (const auto merged = SentIn<MergedFrame>(a[i])) {
            EXPECT_EQ(Sent<MergedFrame>(b[i]).header, merged->header);
            EXPECT_EQ(BytesOf(Sent<MergedFrame>(b[i]).payload), BytesOf(merged->payload));
          }
        }
      };
      if (options.quorum < 1) continue;  // the log has no times
      for (int i = 0; i < 100; ++i) same(life.SomePush());
      ExpectEqual(again, life.aggregator());
    }
  }
}

// A shard may end after any record. What had come whole then closes as it did, or would have.
TEST(AggregatorReplay, OfEveryPrefixLeadsToTheClosesThatFollowed) {
  for (const AggregatorOptions& options : AllKinds()) {
    if (options.quorum < 1) continue;
    Life life(options, 77);
    life.Run(120);
    const std::vector<LogRecord>& log = life.log();
    int closes = 0;
    for (size_t count = 0; count <= log.size(); ++count) {
      Aggregator again = life.Made();
      ReplayAll(std::span(log).first(count), again);
      const auto effects = again.Step(TimePassed{}, absl::UnixEpoch());
      EXPECT_EQ(again.NextDue(), absl::InfiniteFuture());
      // Whatever a membership or a push had completed was still to be written, in this order.
      size_t next = count;
      for (const ShardEffect& effect : effects) {
        const auto* kept = LoggedIn<MergedRecord>(effect);
        if (kept == nullptr) continue;
        ++closes;
        ASSERT_LT(next, log.size());
        const auto& wanted = std::get<MergedRecord>(log[next++]);
        EXPECT_EQ(kept->header, wanted.header);
        EXPECT_EQ(kept->contributors, wanted.contributors);
        EXPECT_EQ(kept->residual_hash, wanted.residual_hash);
        EXPECT_EQ(BytesOf(kept->payload), BytesOf(wanted.payload));
      }
    }
    EXPECT_GE(closes, life.closed());
  }
}

TEST(AggregatorReplay, FromSnapshotsOnGivesTheSameShard) {
  for (const AggregatorOptions& options : AllKinds()) {
    Life life(options, 5);
    std::map<uint32_t, SegmentSnapshot> snapshots;
    for (int i = 0; i < 30; ++i) {
      life.Run(10);
      // At any moment: the log before it has the open pushes, so all of it is replayed.
      const uint32_t segment = 2 + static_cast<uint32_t>(i % 2);
      if (i < 25) snapshots[segment] = life.aggregator().Export(segment);
    }
    Aggregator again = life.Made();
    for (const auto& [segment, snapshot] : snapshots) {
      EXPECT_GT(snapshot.open_round, 2u);
      ASSERT_TRUE(again.Restore(segment, snapshot).ok());
    }
    ReplayAll(life.log(), again);
    ExpectEqual(again, life.aggregator());
    // A second replay adds nothing, except for open pushes.
    for (const LogRecord& record : life.log()) {
      const auto* merged = std::get_if<MergedRecord>(&record);
      if (merged != nullptr) {
        EXPECT_TRUE(again.Replay(record).ok());
      }
    }
    ExpectEqual(again, life.aggregator());
  }
}

TEST(AggregatorReplay, GraceBeginsAnewAfterIt) {
  Life life(Base(), 1);
  PushArrived push = life.SomePush();
  Aggregator again = life.Made();
  for (const uint32_t worker : {0u, 1u, 2u}) {
    push.header.worker = worker;
    life.Do(push);
  }
  ReplayAll(life.log(), again);
  EXPECT_EQ(again.NextDue(), absl::InfinitePast());
  const absl::Time now = life.now() + absl::Hours(3);
  EXPECT_THAT(again.Step(TimePassed{}, now), IsEmpty());
  EXPECT_EQ(again.NextDue(), now + absl::Seconds(1));
  EXPECT_EQ(again.Step(TimePassed{}, now + absl::Seconds(1)).size(), 2u);
}

TEST(AggregatorReplay, TakesTheNewestMembershipOnly) {
  Aggregator again = Life(Base(), 1).Made();
  ASSERT_TRUE(again.Replay(MembershipRecord{Members(3, {0, 1})}).ok());
  ASSERT_TRUE(again.Replay(MembershipRecord{Members(2, {0})}).ok());
  EXPECT_EQ(again.membership(), Members(3, {0, 1}));
}

TEST(AggregatorReplay, CountsPushesOfWhoHasLeftToNoQuorum) {
  Life life(Base(), 1);
  Aggregator again = life.Made();
  // The log begins after the membership of which worker 0 was.
  ASSERT_TRUE(again.Replay(MembershipRecord{Members(2, {1, 2, 3})}).ok());
  PushArrived push = life.SomePush();
  for (const uint32_t worker : {0u, 1u}) {
    push.header.worker = worker;
    ASSERT_TRUE(again.Replay(PushRecord{push.header, push.payload}).ok());
  }
  EXPECT_THAT(again.Step(TimePassed{}, life.now()), IsEmpty());
  EXPECT_EQ(again.NextDue(), absl::InfiniteFuture());
  push.header.worker = 2;
  again.Step(push, life.now());
  EXPECT_EQ(again.NextDue(), life.now() + absl::Seconds(1));
}

}  // namespace
}  // namespace longwave
