// The first weights of a run with run.start member: requested from a member that has them, kept for
// good, and sent to workers without weights.
#include <set>

#include "gmock/gmock.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Start : public ::testing::Test {
 protected:
  void SetUp() override {
    disk_.options.keeps_start = true;
    disk_.members_say_hello = false;
    disk_.options.snapshot_rounds = 100;
    ASSERT_TRUE(disk_.Open().ok());
  }
  // Worker 0 began with the run's first weights, worker 1 with others.
  static Membership OneOfTwo(uint32_t epoch = 1) {
    Membership membership = Members(epoch, {0, 1});
    membership.members[1].other_start = true;
    return membership;
  }
  // Both have said hello.
  std::vector<ShardEffect> Begin(const Membership& membership) {
    auto effects = disk_.Do({MembershipChanged{membership}});
    EXPECT_THAT(StartRequests(effects), IsEmpty()) << "nobody would hear it";
    for (const uint32_t worker : {0u, 1u}) disk_.shard().Greeted(worker);
    EXPECT_LE(disk_.shard().NextDue(), disk_.now);
    return disk_.Do({});
  }
  // The snapshot requests for the start: "segment of worker".
  static std::vector<std::string> StartRequests(const std::vector<ShardEffect>& effects) {
    std::vector<std::string> asked;
    for (const auto& request : AllSent<RequestFrame>(effects)) {
      if (request.header.round != kRoundNever) continue;
      asked.push_back(std::to_string(request.header.segment) + " of " +
                      std::to_string(request.header.worker));
    }
    return asked;
  }
  void Give(uint32_t segment) {
    disk_.Do({TestSnapshot(0, 0, segment)});
    disk_.Do({HashChecksArrived{{{segment, 0, true}}}});
    disk_.Do({});
  }
  std::vector<ShardEffect> FetchAll(uint32_t segment) {
    return disk_.Do({TestFetch(1, kRoundNever, segment)});
  }
  bool IsKept(uint32_t segment) {
    return disk_.shard().store()->snapshots().Latest(SnapshotKind::kStart, segment).has_value();
  }

  ShardOnDisk disk_;
};

TEST_F(Start, IsAskedOfMembersThatBeganWithIt) {
  auto requests = Begin(OneOfTwo());
  EXPECT_THAT(StartRequests(requests), ElementsAre("2 of 0"));
  disk_.Do({TestSnapshot(0, 0, 2)});
  EXPECT_THAT(disk_.shard().UnconfirmedSnapshots(), SizeIs(1));
  EXPECT_FALSE(IsKept(2));
  requests = disk_.Do({HashChecksArrived{{{2, 0, true}}}});
  EXPECT_TRUE(IsKept(2));
  Give(3);
  EXPECT_TRUE(IsKept(3));
  EXPECT_THAT(StartRequests(disk_.PushAll({0, 1}, 0)), IsEmpty());
}

// The log of members does not say who has the first weights.
TEST_F(Start, IsAskedOfTheSameMembersAfterADiskThatFailed) {
  Begin(OneOfTwo());
  disk_.files.faults.capacity_bytes = 1;
  disk_.Do({TestPush(0, 0, 2)});
  disk_.files.faults.capacity_bytes.reset();
  disk_.AfterReopening();
  EXPECT_EQ(disk_.shard().trouble(), "");
  for (const uint32_t worker : {0u, 1u}) disk_.shard().Greeted(worker);
  std::set<std::string> asked;
  for (int i = 0; i < 4; ++i) {
    disk_.now += absl::Hours(1);  // beyond the patience with the requests before
    for (const std::string& request : StartRequests(disk_.Do({}))) asked.insert(request);
  }
  EXPECT_THAT(asked, ElementsAre("2 of 0", "3 of 0"));
}

TEST_F(Start, ThatTheCoordinatorDoesNotConfirmIsAskedForAgain) {
  Begin(OneOfTwo());
  // A member gets one request at a time.
  EXPECT_THAT(StartRequests(disk_.Do({TestSnapshot(0, 0, 2)})), ElementsAre("3 of 0"));
  EXPECT_THAT(StartRequests(disk_.Do({HashChecksArrived{{{2, 0, false}}}})), IsEmpty());
  EXPECT_FALSE(IsKept(2));
  Give(3);
  EXPECT_THAT(StartRequests(disk_.PushAll({0, 1}, 0)), Contains("2 of 0"));
}

TEST_F(Start, IsAskedForWhenTheRunHasLongGoneOn) {
  disk_.Do({MembershipChanged{Members(1, {1})}});  // of another process of worker 1
  for (uint32_t round = 0; round < 5; ++round) disk_.PushAll({1}, round);
  disk_.options.restore = true;  // the folder is lost
  disk_.folder = "other";
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_THAT(StartRequests(Begin(OneOfTwo(2))), ElementsAre("2 of 0"));
}

TEST_F(Start, IsKeptOverARestartAndWhileOldLogGoes) {
  disk_.options.snapshot_rounds = 4;
  ASSERT_TRUE(disk_.Open().ok());
  Begin(OneOfTwo());
  Give(2);
  Give(3);
  for (uint32_t round = 0; round < 60; ++round) disk_.AnswerRequests(disk_.PushAll({0, 1}, round));
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_GT(disk_.shard().store()->log().recovery().first_sequence, 1u) << "old log has gone";
  EXPECT_TRUE(IsKept(2));
  EXPECT_TRUE(IsKept(3));
  EXPECT_THAT(StartRequests(Begin(OneOfTwo(2))), IsEmpty());
  // The way from there is no longer in the log: a worker that has nothing gets a model.
  const auto sent = AllSent<SnapshotFrame>(FetchAll(2));
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_GT(sent[0].header.round, 0u);
}

TEST_F(Start, IsToldToWhoHasNothing) {
  Begin(OneOfTwo());
  EXPECT_THAT(Outcomes(FetchAll(2)), ElementsAre(Outcome::kBusy)) << "it may come";
  Give(2);
  disk_.PushAll({0}, 0);
  const auto sent = AllSent<SnapshotFrame>(FetchAll(2));
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].header.worker, 1u);
  EXPECT_EQ(sent[0].header.round, 0u);
  const auto arrays = DecodeSnapshotPayload(sent[0].payload.bytes(), 1, kTileSize);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  EXPECT_EQ(arrays->front(), TestParameters(2, 0));
  // A worker that has it goes on with the updates.
  EXPECT_THAT(Outcomes(disk_.Do({TestFetch(1, 0, 2)})), ElementsAre(Outcome::kAccepted));
}

TEST_F(Start, ThatIsDamagedIsAskedForAgain) {
  Begin(OneOfTwo());
  Give(2);
  Give(3);
  disk_.files.Corrupt("state/snap/" + SnapshotName({SnapshotKind::kStart, 2, 1, 0}), 95,
                      std::byte{4});
  EXPECT_THAT(Outcomes(FetchAll(2)), ElementsAre(Outcome::kBusy));
  EXPECT_THAT(disk_.shard().TakeNotices(), Contains(HasSubstr("hash")));
  EXPECT_THAT(StartRequests(disk_.Do({})), ElementsAre("2 of 0"));
}

TEST_F(Start, ThatNobodyHasIsSaidToBeLost) {
  Membership others = Members(1, {1});
  others.members[0].other_start = true;
  EXPECT_THAT(AllSent<RequestFrame>(Begin(others)), IsEmpty());
  EXPECT_THAT(disk_.shard().TakeNotices(), Contains(HasSubstr("no member has it now")));
}

TEST_F(Start, IsNothingThatASeedsRunKeeps) {
  disk_.options.keeps_start = false;
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_THAT(AllSent<RequestFrame>(Begin(OneOfTwo())), IsEmpty());
  disk_.Do({TestSnapshot(0, 0, 2)});
  EXPECT_THAT(disk_.shard().UnconfirmedSnapshots(), IsEmpty());
  const auto effects = FetchAll(2);
  EXPECT_THAT(Outcomes(effects), ElementsAre(Outcome::kRejected));
  EXPECT_THAT(AllSent<AnswerFrame>(effects)[0].reason(), HasSubstr("keeps no snapshot yet"));
}

}  // namespace
}  // namespace longwave
