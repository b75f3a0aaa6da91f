// A shard's data plane over real sockets; the workers are this test.
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/service/shard_data_plane.h"
#include "tests/unit/rpc/shard_worker.h"

namespace longwave {
namespace {

std::string Text(const Buffer& payload) {
  return std::string(reinterpret_cast<const char*>(payload.bytes().data()), payload.size());
}

class DataPlaneTest : public ::testing::Test {
 protected:
  DataPlaneTest() : config_(OneRoundConfig()), layout_(LayoutOf(config_)) {}

  void SetUp() override {
    auto router = Router::Bind("tcp://127.0.0.1:0");
    ASSERT_TRUE(router.ok()) << router.status();
    plane_ = std::make_unique<ShardDataPlane>(*std::move(router));
    serving_ = std::async(std::launch::async, [this] { return plane_->Serve(); });
    dealer_ = NewDealer();
  }
  void TearDown() override {
    plane_->Stop();
    EXPECT_TRUE(serving_.get().ok());
  }

  std::unique_ptr<Dealer> NewDealer() {
    auto dealer = Dealer::Connect(plane_->endpoint());
    EXPECT_TRUE(dealer.ok()) << dealer.status();
    return *std::move(dealer);
  }

  void Begin(std::vector<Member> members) {
    auto aggregator = Aggregator::Create(
        {.run = kRun, .up = config_.sync.up, .rho = config_.sync.rho, .down = config_.sync.down},
        layout_);
    ASSERT_TRUE(aggregator.ok()) << aggregator.status();
    plane_->Begin(kRun, *std::move(aggregator));
    plane_->SetMembership({.epoch = 1, .members = std::move(members)});
  }

  const RunConfig config_;
  const Layout layout_;
  std::unique_ptr<ShardDataPlane> plane_;
  std::future<absl::Status> serving_;
  std::unique_ptr<Dealer> dealer_;
};

TEST_F(DataPlaneTest, FramesThatComeBeforeTheMembershipWait) {
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kPush, kRun, 0), ZeroPayload(config_, layout_)).ok());
  // Nothing can be answered yet; what was sent has time to arrive, or arrives later: both are well.
  EXPECT_FALSE(dealer_->Receive(absl::Milliseconds(20))->has_value());
  Begin({{0, "a", 0}});
  EXPECT_EQ(MustReceive(*dealer_).header.outcome, Outcome::kAccepted);
  EXPECT_EQ(MustReceive(*dealer_).header.kind, FrameKind::kMerged);
  EXPECT_EQ(plane_->state().pushes_accepted, 1u);
  EXPECT_EQ(plane_->segments().at(0).open_round, 1u);
}

TEST_F(DataPlaneTest, MergedUpdateGoesToEveryMember) {
  Begin({{0, "a", 0}, {1, "b", 0}});
  const auto other = NewDealer();
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kPush, kRun, 0), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.outcome, Outcome::kAccepted);
  EXPECT_EQ(plane_->segments().at(0).waiting_for, std::vector<uint32_t>{1});
  ASSERT_TRUE(other->Send(Header(FrameKind::kPush, kRun, 1), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(MustReceive(*other).header.outcome, Outcome::kAccepted);
  const Frame here = MustReceive(*dealer_);
  const Frame there = MustReceive(*other);
  EXPECT_EQ(here.header.kind, FrameKind::kMerged);
  EXPECT_EQ(here.header.weight, 200u);
  EXPECT_EQ(here.header, there.header);
}

TEST_F(DataPlaneTest, AMemberThatLeavesIsNotWaitedFor) {
  Begin({{0, "a", 0}, {1, "b", 0}});
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kPush, kRun, 0), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.outcome, Outcome::kAccepted);
  // The thread that serves waits for frames; the membership alone must wake it.
  plane_->SetMembership({.epoch = 2, .members = {{0, "a", 0}}});
  EXPECT_EQ(MustReceive(*dealer_).header.kind, FrameKind::kMerged);
}

TEST_F(DataPlaneTest, AnswersFollowAWorkerToItsNewConnection) {
  Begin({{0, "a", 0}});
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kPush, kRun, 0), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.outcome, Outcome::kAccepted);
  dealer_ = NewDealer();
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kPull, kRun, 0), Buffer()).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.kind, FrameKind::kMerged);
}

TEST_F(DataPlaneTest, HelloIsAcceptedFromMembersOfThisRunAlone) {
  Begin({{0, "a", 0}});
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kHello, kRun, 0), Buffer()).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.outcome, Outcome::kAccepted);
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kHello, kRun + 1, 0), Buffer()).ok());
  Frame answer = MustReceive(*dealer_);
  EXPECT_EQ(answer.header.outcome, Outcome::kRejected);
  EXPECT_EQ(Text(answer.payload),
            "hello of run 0000000000001235, this shard serves run 0000000000001234");
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kHello, kRun, 7), Buffer()).ok());
  answer = MustReceive(*dealer_);
  EXPECT_EQ(answer.header.outcome, Outcome::kRejected);
  EXPECT_EQ(Text(answer.payload), "worker 7 is not a member of epoch 1");
}

TEST_F(DataPlaneTest, RejectedPushSaysWhy) {
  Begin({{0, "a", 0}});
  ASSERT_TRUE(
      dealer_->Send(Header(FrameKind::kPush, kRun, 0), Buffer(std::vector<std::byte>(7))).ok());
  const Frame answer = MustReceive(*dealer_);
  EXPECT_EQ(answer.header.outcome, Outcome::kRejected);
  EXPECT_FALSE(answer.payload.empty());
}

TEST_F(DataPlaneTest, StopsWithoutEverKnowingAMembership) {}

}  // namespace
}  // namespace longwave
