// How long a shard that restores its segments waits for a member's answers to its requests.
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "server/shard_state/replica_restore.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kSegmentElements = 1 << 20;

// Four segments of a million parameters: 4 MiB each, 33.6 s at 1 Mbit/s, and pushes have half of
// the link. Two members, who wait for round 21.
class RestorePatience : public ::testing::Test {
 protected:
  void SetUp() override {
    DurableShardOptions options = TestOptions();
    options.restore = true;
    options.aggregator.shard = 0;
    auto layout = Layout::Create({{{"w", {64, int64_t{64} * 256 * 4}}}}, {.segment_tiles = 256});
    ASSERT_TRUE(layout.ok()) << layout.status();
    auto shard = DurableShard::Open(options, *std::move(layout), nullptr);
    ASSERT_TRUE(shard.ok()) << shard.status();
    shard_ = *std::move(shard);
    ASSERT_EQ(shard_->segment_count(), 4u);
    shard_->Step(MembershipChanged{Members(4, {0, 1})}, now_);
    for (uint32_t segment = 0; segment < 4; ++segment) {
      for (const uint32_t worker : {0u, 1u}) shard_->Step(TestPull(worker, 21, segment), now_);
    }
    ASSERT_THAT(Asked(), ElementsAre("0 of 0", "1 of 1", "2 of 0", "3 of 1"));
  }
  // "segment of worker"
  std::vector<std::string> Asked() {
    std::vector<std::string> asked;
    for (const auto& request : AllSent<RequestFrame>(shard_->Commit(now_))) {
      EXPECT_EQ(request.header.round, 21u);
      EXPECT_LT(request.header.open_round, 21u) << "of a later round it would be of no use";
      asked.push_back(std::to_string(request.header.segment) + " of " +
                      std::to_string(request.header.worker));
    }
    return asked;
  }
  void Give(uint32_t worker, uint32_t segment) {
    const std::vector<float> values(kSegmentElements);
    const std::span<const float> arrays[] = {values};
    SnapshotArrived snapshot = TestSnapshot(worker, 21, segment);
    snapshot.payload = EncodeSnapshotPayload(arrays);
    shard_->Step(snapshot, now_);
  }

  const absl::Time start_ = absl::UnixEpoch() + absl::Hours(1);
  absl::Time now_ = start_;
  std::unique_ptr<DurableShard> shard_;
};

TEST_F(RestorePatience, GrowsWithWhatTheMemberWasAskedFor) {
  EXPECT_EQ(shard_->NextDue(), start_ + ReplicaRestore::kPatience + absl::Seconds(67));
  now_ = shard_->NextDue() - absl::Nanoseconds(1);
  EXPECT_THAT(Asked(), IsEmpty());
  now_ = shard_->NextDue();
  EXPECT_THAT(Asked(), ElementsAre("0 of 1", "1 of 0")) << "2 and 3 come after these";
  EXPECT_EQ(shard_->NextDue(), start_ + ReplicaRestore::kPatience + absl::Seconds(134));
}

TEST_F(RestorePatience, ShrinksAgainWithWhatCame) {
  now_ += absl::Seconds(5);
  Give(0, 0);
  Give(1, 1);
  EXPECT_THAT(Asked(), IsEmpty());
  EXPECT_EQ(shard_->restoring_count(), 2u);
  EXPECT_EQ(shard_->NextDue(), now_ + ReplicaRestore::kPatience + absl::Seconds(67));
  now_ = shard_->NextDue();
  EXPECT_THAT(Asked(), ElementsAre("2 of 1", "3 of 0"));
}

TEST_F(RestorePatience, OfAMemberThatIsGoneThereIsNone) {
  shard_->Step(MembershipChanged{Members(5, {1})}, now_);
  EXPECT_THAT(Asked(), ElementsAre("0 of 1", "2 of 1"));
  // After the earlier requests, for 1 and 3, and then 0.
  now_ = start_ + ReplicaRestore::kPatience + absl::Seconds(67);
  EXPECT_THAT(Asked(), ElementsAre("1 of 1"));
}

}  // namespace
}  // namespace longwave
