// Answers, their connections and times, and held-back frames. The test plays the connections.
#include "server/shard_state/shard_core.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kIncarnation = 0xfeed;

class ShardCoreTest : public ::testing::Test {
 protected:
  ShardCoreTest()
      : core_(std::make_unique<ShardCore>(
            kRun, kIncarnation, *DurableShard::Open(TestOptions(), FourSegments(), nullptr))) {}

  ShardCore::Taken OnFrame(const PeerId& peer, const FrameHeader& header,
                           Buffer payload = Buffer()) {
    return core_->OnFrame({peer, {header, std::move(payload)}}, now_);
  }
  void Push(const PeerId& peer, uint32_t worker, uint32_t round, uint32_t segment) {
    const PushArrived push = TestPush(worker, round, segment);
    OnFrame(peer, push.header, push.payload);
  }
  // sent: frames before it. number: of the connection.
  void Hello(const PeerId& peer, uint32_t worker, uint64_t bytes_per_s = 0, uint32_t sent = 0,
             uint32_t number = 0) {
    OnFrame(peer, HelloFrame{.run = kRun,
                             .connection = number,
                             .frames_sent = sent,
                             .worker = worker,
                             .bytes_per_second_max = bytes_per_s});
    CommitAndSend();
  }
  // The frames due now: "PEER KIND", with the segment of an update; without those of `stuck_` and
  // `gone_`.
  std::vector<std::string> Send() {
    std::vector<std::string> sent;
    core_->SendDue(now_, [&](const PeerId& peer, const SealedFrame& frame) {
      if (gone_.contains(peer)) return absl::NotFoundError("it has gone");
      if (stuck_.contains(peer)) return absl::UnavailableError("it is full");
      const FrameName name = frame.header();
      sent_.push_back(frame.header());
      sent.push_back(peer + " " + std::string(Name(name.kind)));
      if (name.kind == FrameKind::kMerged) sent.back() += " " + std::to_string(name.segment);
      return absl::OkStatus();
    });
    return sent;
  }
  std::vector<std::string> CommitAndSend() {
    core_->Commit(now_);
    return Send();
  }
  // The last frame sent.
  const WelcomeFrame& Welcome() const { return std::get<WelcomeFrame>(sent_.back()); }
  void SetMembers(std::vector<uint32_t> workers) {
    core_->SetMembership(Members(++epoch_, std::move(workers)), now_);
  }

  std::unique_ptr<ShardCore> core_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  uint32_t epoch_ = 0;
  std::set<PeerId> gone_;
  std::set<PeerId> stuck_;
  std::vector<FrameHeader> sent_;
};

TEST_F(ShardCoreTest, AnAnswerGoesByTheConnectionOfItsRequestAfterTheCommit) {
  SetMembers({0, 1});
  Hello("a", 0);
  Push("b", 0, 0, 2);
  Push("c", 0, 0, 3);
  EXPECT_THAT(Send(), IsEmpty());
  EXPECT_THAT(CommitAndSend(), ElementsAre("b answer", "c answer"));
  EXPECT_THAT(CommitAndSend(), IsEmpty());
}

TEST_F(ShardCoreTest, AHelloIsAnsweredAfterWhatCameBeforeIt) {
  SetMembers({3, 4});
  Push("a", 3, 0, 2);
  const HelloFrame hello{
      .run = kRun, .frames_sent = 1, .worker = 3, .bytes_per_second_max = 1'000'000};
  EXPECT_FALSE(OnFrame("a", hello).is_strangers);
  EXPECT_THAT(Send(), ElementsAre("a request"));
  EXPECT_THAT(CommitAndSend(), ElementsAre("a answer", "a answer"));
  EXPECT_EQ(Welcome(), (WelcomeFrame{.outcome = Outcome::kAccepted,
                                     .run = kRun,
                                     .frames_sent = 1,
                                     .worker = 3,
                                     .incarnation = kIncarnation,
                                     .shard_frames_sent = 2}));
}

// The worker believes nothing that comes before the answer to its hello.
TEST_F(ShardCoreTest, AHelloIsAnsweredBeforeUpdates) {
  SetMembers({0});
  Push("a", 0, 0, 2);
  OnFrame("a", HelloFrame{.run = kRun, .frames_sent = 1});
  OnFrame("a", TestHeader<PullFrame>(0, 0, 2));
  EXPECT_THAT(CommitAndSend(),
              ElementsAre("a request", "a answer", "a answer", "a merged 2", "a merged 2"));
  EXPECT_TRUE(std::holds_alternative<WelcomeFrame>(sent_[2]));
}

TEST_F(ShardCoreTest, AnAnswerToAHelloSaysWhatIsMissing) {
  SetMembers({0, 1});
  Hello("a", 0);
  EXPECT_EQ(Welcome().frames_missing, 0u);
  EXPECT_EQ(Welcome().shard_frames_sent, 0u);
  Push("a", 0, 0, 2);
  Hello("a", 0, 0, /*sent=*/5);
  EXPECT_EQ(Welcome().frames_missing, 3u) << "of five, the first hello and the push have come";
  EXPECT_EQ(Welcome().shard_frames_sent, 2u);
  Hello("b", 0);
  EXPECT_EQ(Welcome().frames_missing, 0u) << "another connection";
  EXPECT_EQ(Welcome().shard_frames_sent, 0u);
  stuck_ = {"a"};
  Push("a", 0, 0, 3);
  EXPECT_THAT(CommitAndSend(), IsEmpty());
  stuck_ = {};
  Hello("a", 0, 0, 7);
  EXPECT_EQ(Welcome().frames_missing, 3u);
  EXPECT_EQ(Welcome().shard_frames_sent, 4u) << "with the answer that was dropped";
}

// A late frame on the replaced connection must not move the segment's updates there.
TEST_F(ShardCoreTest, AnUpdateGoesByTheConnectionWithTheLargerNumber) {
  SetMembers({0, 1});
  Hello("a", 0, 0, 0, /*number=*/1);
  Hello("b", 0, 0, 0, /*number=*/2);
  Hello("c", 1);
  Push("b", 0, 0, 2);
  Push("a", 0, 0, 2);
  EXPECT_THAT(CommitAndSend(), ElementsAre("b answer", "a answer"));
  Push("c", 1, 0, 2);
  EXPECT_THAT(CommitAndSend(), ElementsAre("c answer", "b merged 2", "c merged 2"));
}

TEST_F(ShardCoreTest, AStrangerIsAnsweredAndBringsNobodyAConnection) {
  SetMembers({0});
  HelloFrame hello{.run = kRun + 1};
  EXPECT_TRUE(OnFrame("a", hello).is_strangers);
  EXPECT_EQ(core_->last_frame(), absl::InfinitePast()) << "nothing of the run was heard";
  hello.run = kRun;
  hello.worker = 7;
  EXPECT_TRUE(OnFrame("a", hello).is_strangers);
  EXPECT_THAT(CommitAndSend(), ElementsAre("a answer", "a answer"));
  for (const FrameHeader& answer : sent_)
    EXPECT_EQ(std::get<WelcomeFrame>(answer).outcome, Outcome::kRejected);
  EXPECT_THAT(core_->links(), SizeIs(1));
  EXPECT_EQ(core_->links()[0].connections, 0u);
  EXPECT_EQ(core_->links()[0].traffic, LinkTraffic());
}

TEST_F(ShardCoreTest, AWorkerWithoutAHelloIsAskedForOneAndItsUpdatesWaitForIt) {
  SetMembers({0});
  Push("a", 0, 0, 2);
  EXPECT_THAT(Send(), ElementsAre("a request")) << "at once";
  EXPECT_THAT(CommitAndSend(), ElementsAre("a answer")) << "answers do not wait";
  Push("a", 0, 0, 3);
  EXPECT_THAT(Send(), IsEmpty()) << "it is asked once in kHelloPatience";
  CommitAndSend();
  EXPECT_EQ(core_->links()[0].frames_waiting, 2u);
  EXPECT_EQ(core_->NextDue(), now_ + MemberLinks::kHelloPatience);
  Hello("a", 0, 0);
  EXPECT_EQ(core_->links()[0].frames_waiting, 0u);
}

TEST_F(ShardCoreTest, AWorkerThatSaysNoHelloIsServedAfterAWhileAndAskedAgain) {
  SetMembers({0});
  Push("a", 0, 0, 2);
  CommitAndSend();
  now_ += MemberLinks::kHelloPatience;
  EXPECT_THAT(Send(), ElementsAre("a merged 2"));
  OnFrame("a", TestHeader<PullFrame>(0, 0, 2));
  EXPECT_THAT(CommitAndSend(), ElementsAre("a request", "a merged 2"));
}

TEST_F(ShardCoreTest, AnUpdateGoesByTheConnectionOfItsSegment) {
  SetMembers({0, 1});
  Hello("a", 0);
  Hello("c", 1);
  Push("a", 0, 0, 2);
  Push("b", 0, 0, 3);
  CommitAndSend();
  Push("c", 1, 0, 2);
  Push("c", 1, 0, 3);
  EXPECT_THAT(CommitAndSend(), ElementsAre("c answer", "a merged 2", "c merged 2", "c answer",
                                           "b merged 3", "c merged 3"));
  EXPECT_EQ(core_->links()[0].connections, 2u);
}

TEST_F(ShardCoreTest, AnUpdateGoesByAnotherConnectionWhereItsOwnHasGone) {
  SetMembers({0});
  Hello("a", 0);
  Push("b", 0, 0, 2);
  gone_ = {"b"};
  EXPECT_THAT(CommitAndSend(), ElementsAre("a merged 2"));
  EXPECT_EQ(core_->links()[0].connections, 1u);
  EXPECT_EQ(core_->unsent_count(), 1u) << "the answer, whose connection it was";
  EXPECT_THAT(core_->TakeNotices(), ElementsAre(HasSubstr("answer frame for worker 0, round 0")));
  gone_ = {"a"};
  OnFrame("a", TestHeader<PullFrame>(0, 0, 2));
  EXPECT_THAT(CommitAndSend(), IsEmpty());
  EXPECT_EQ(core_->links()[0].connections, 0u);
  EXPECT_EQ(core_->unsent_count(), 2u);
}

TEST_F(ShardCoreTest, AnUpdateWaitsForAFullQueueAndAnAnswerDoesNot) {
  SetMembers({0});
  Hello("a", 0);
  Push("a", 0, 0, 2);
  stuck_ = {"a"};
  EXPECT_THAT(CommitAndSend(), IsEmpty());
  EXPECT_EQ(core_->unsent_count(), 1u);
  stuck_ = {};
  EXPECT_EQ(core_->NextDue(), now_ + Outbox::kRetryInterval);
  EXPECT_THAT(Send(), IsEmpty());
  now_ += Outbox::kRetryInterval;
  EXPECT_THAT(Send(), ElementsAre("a merged 2"));
}

TEST_F(ShardCoreTest, ARateHoldsBackUpdatesOfItsWorkerAlone) {
  SetMembers({0, 1});
  Hello("a", 0, 1);
  Hello("b", 1, 0);
  for (const uint32_t segment : {2u, 3u}) {
    Push("a", 0, 0, segment);
    Push("b", 1, 0, segment);
  }
  EXPECT_THAT(CommitAndSend(), ElementsAre("a answer", "b answer", "b merged 2", "a answer",
                                           "b answer", "b merged 3"));
  EXPECT_EQ(core_->links()[0].bytes_per_second, 1u);
  EXPECT_EQ(core_->links()[0].frames_waiting, 2u);
  Hello("a", 0, 0);
  EXPECT_EQ(core_->links()[0].frames_waiting, 0u);
}

TEST_F(ShardCoreTest, AWorkerThatLeavesTakesQueueConnectionsAndCountsAlong) {
  SetMembers({0, 1});
  Hello("a", 0, 1);
  Push("a", 0, 0, 2);
  Push("b", 1, 0, 2);
  CommitAndSend();
  EXPECT_EQ(core_->links()[0].frames_waiting, 1u);
  SetMembers({1});
  EXPECT_FALSE(core_->IsMember(0));
  SetMembers({0, 1});
  const WorkerLinkReport back = core_->links()[0];
  EXPECT_EQ(back.connections, 0u);
  EXPECT_EQ(back.bytes_per_second, 0u);
  EXPECT_EQ(back.frames_waiting, 0u);
  EXPECT_EQ(back.traffic, LinkTraffic());
}

TEST_F(ShardCoreTest, FramesAreCountedByMemberAndKindOnceTheirConnectionHasThem) {
  SetMembers({0});
  Hello("a", 0);
  Push("b", 0, 0, 2);
  stuck_ = {"b"};
  CommitAndSend();
  const LinkTraffic traffic = core_->links()[0].traffic;
  const uint64_t push_bytes = TestPush(0, 0, 2).payload.size();
  EXPECT_EQ(traffic.received[FrameKind::kHello].frames, 1u);
  EXPECT_EQ(traffic.received[FrameKind::kPush],
            (Traffic{1, FrameWireBytes(push_bytes, Encryption::kNone), push_bytes}));
  EXPECT_EQ(traffic.sent.Total(), (Traffic{1, FrameWireBytes(0, Encryption::kNone), 0}));
}

TEST_F(ShardCoreTest, FramesThatOnlyShardsSendAreDroppedAndNamedAtDoublingNumbers) {
  SetMembers({0});
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(OnFrame("a", TestHeader<MergedFrame>(0, 0, 2)).is_of_shards);
  }
  EXPECT_THAT(CommitAndSend(), ElementsAre("a request"));
  EXPECT_THAT(core_->TakeNotices(), SizeIs(4));
}

TEST_F(ShardCoreTest, AMemberOfWhomAPushIsOfNoUseIsNamedForAWhile) {
  SetMembers({0});
  Hello("a", 0);
  OnFrame("a", TestHeader<PushFrame>(0, 0, 2), Buffer(std::vector<std::byte>(7)));
  EXPECT_THAT(CommitAndSend(), ElementsAre("a answer"));
  EXPECT_EQ(std::get<AnswerFrame>(sent_.back()).outcome, Outcome::kRejected);
  EXPECT_THAT(core_->Report(1, now_).complaint, HasSubstr("rejected push of worker 0"));
  EXPECT_EQ(core_->Report(1, now_ + ShardNotices::kComplaintLife).complaint, "");
}

TEST_F(ShardCoreTest, WithoutAFolderEachFrameIsCommittedAlone) {
  SetMembers({0});
  Hello("a", 0);
  EXPECT_FALSE(core_->TakesMore());
}

TEST(ShardCore, WithAFolderACommitIsOfManyFramesOrBytes) {
  ShardOnDisk disk;
  ASSERT_TRUE(disk.Open().ok());
  ShardCore core(kRun, kIncarnation, disk.Release());
  core.SetMembership(Members(1, {0}), disk.now);
  const PeerFrame pull{"a", {TestPull(0, 0, 2).header, Buffer()}};
  for (size_t i = 1; i < ShardCore::kBatchFrames; ++i) {
    core.OnFrame(pull, disk.now);
    ASSERT_TRUE(core.TakesMore()) << i;
  }
  core.OnFrame(pull, disk.now);
  EXPECT_FALSE(core.TakesMore());
  core.Commit(disk.now);
  EXPECT_TRUE(core.TakesMore());
  const Buffer large{std::vector<std::byte>(ShardCore::kBatchBytes)};
  core.OnFrame({"a", {TestHeader<AnswerFrame>(0, 0, 2), large}}, disk.now);
  EXPECT_FALSE(core.TakesMore());
}

}  // namespace
}  // namespace longwave
