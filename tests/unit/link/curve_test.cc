#include "common/link/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/link/link.h"
#include "common/log/refusals.h"
#include "tests/support/tcp_client.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kWait = absl::Seconds(60);

FrameHeader From(uint32_t worker) { return PushFrame{.worker = worker}; }

class CurveTest : public ::testing::Test {
 protected:
  CurveTest() {
    auto router = Router::Bind("tcp://127.0.0.1:0", {.keys = server_, .refusals = &refusals_});
    EXPECT_TRUE(router.ok()) << router.status();
    router_ = *std::move(router);
    router_->SetAdmitted({{1, member_.public_key}});
    endpoint_ = WithKey(router_->endpoint(), server_.public_key);
  }

  std::unique_ptr<Dealer> Dial(const CurveKeys& keys) {
    auto dealer = Dealer::Connect(endpoint_, {.keys = keys});
    EXPECT_TRUE(dealer.ok()) << dealer.status();
    return *std::move(dealer);
  }

  // Says the bytes on a plain TCP connection until the router ends it.
  void SayUntilTheEnd(const std::string& bytes) {
    const int fd = ConnectTo(router_->endpoint());
    char greeting[10];
    EXPECT_EQ(recv(fd, greeting, sizeof greeting, MSG_WAITALL), ssize_t{sizeof greeting});
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
    EXPECT_TRUE(HungUp(fd, kWait));
    close(fd);
  }

  // Receives until `is_so`; frames that verify are failures.
  template <typename IsSo>
  void ExpectNothingUntil(const IsSo& is_so) {
    const absl::Time deadline = absl::Now() + kWait;
    while (!is_so() && absl::Now() < deadline) {
      const auto received = router_->Receive(absl::Milliseconds(20));
      ASSERT_TRUE(received.ok()) << received.status();
      EXPECT_FALSE(received->has_value()) << "a frame came through";
    }
    EXPECT_TRUE(is_so()) << "nothing of it was counted";
  }

  uint64_t Refused() const { return refusals_.of(Refusal::kDataConnection); }

  const CurveKeys server_ = *MakeCurveKeys();
  const CurveKeys member_ = *MakeCurveKeys();
  Refusals refusals_;  // outlives the router
  std::unique_ptr<Router> router_;
  std::string endpoint_;
};

TEST_F(CurveTest, AMembersFramesComeAndAreAnswered) {
  const auto dealer = Dial(member_);
  ASSERT_TRUE(dealer->Send(From(1), Buffer(std::vector<std::byte>(100'000, std::byte{7}))).ok());
  const auto received = router_->Receive(kWait);
  ASSERT_TRUE(received.ok() && received->has_value());
  EXPECT_EQ((*received)->frame.payload.size(), 100'000u);
  ASSERT_TRUE(router_->Send((*received)->peer, From(1), Buffer()).ok());
  const auto answer = dealer->Receive(kWait);
  EXPECT_TRUE(answer.ok() && answer->has_value());
  EXPECT_EQ(Refused(), 0u);
}

TEST_F(CurveTest, AStrangersKeyOpensNothing) {
  ::testing::internal::CaptureStderr();
  const auto dealer = Dial(*MakeCurveKeys());
  ASSERT_TRUE(dealer->Send(From(1), Buffer()).ok());
  ExpectNothingUntil([&] { return Refused() > 0; });
  router_.reset();  // the thread counts a refusal before it writes the line
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("refused (data_connection, 1 so far): a connection to the data port: its "
                        "key is no member's"));
}

TEST_F(CurveTest, AMemberWhoseKeyComesLaterGetsIn) {
  const CurveKeys late = *MakeCurveKeys();
  const auto dealer = Dial(late);
  ASSERT_TRUE(dealer->Send(From(2), Buffer()).ok());
  ExpectNothingUntil([&] { return Refused() > 0; });
  router_->SetAdmitted({{1, member_.public_key}, {2, late.public_key}});
  const auto received = router_->Receive(kWait);
  EXPECT_TRUE(received.ok() && received->has_value()) << "it did not come again";
}

TEST_F(CurveTest, WrongWordsAreCounted) {
  SayUntilTheEnd(ZmtpGreeting("NULL"));
  ExpectNothingUntil([&] { return Refused() == 1; });
  SayUntilTheEnd(ForgedHello());
  ExpectNothingUntil([&] { return Refused() == 2; });
}

// Health checks, port scans and `longwave doctor` connect like this.
TEST_F(CurveTest, WhoSaysNothingIsLetGoAndNotCounted) {
  for (int i = 0; i < 20; ++i) close(ConnectTo(router_->endpoint()));
  SayUntilTheEnd("");
  SayUntilTheEnd(ZmtpGreeting("NULL"));
  ExpectNothingUntil([&] { return Refused() > 0; });
  EXPECT_EQ(Refused(), 1u);
}

// ZeroMQ's own may notice by itself that the other end wants CURVE, and close first.
TEST_F(CurveTest, APlainDealersFramesDoNotCome) {
  const auto dealer = Dealer::Connect(router_->endpoint());
  ASSERT_TRUE(dealer.ok());
  ASSERT_TRUE((*dealer)->Send(From(1), Buffer()).ok());
  SayUntilTheEnd(ZmtpGreeting("NULL"));
  ExpectNothingUntil([&] { return Refused() > 0; });
  EXPECT_EQ((*dealer)->counts().received, 0u);
}

TEST_F(CurveTest, AFrameThatNamesAnotherWorkerIsRefused) {
  const auto dealer = Dial(member_);
  ASSERT_TRUE(dealer->Send(From(2), Buffer()).ok());
  ExpectNothingUntil([&] { return refusals_.of(Refusal::kDataWorker) > 0; });
  EXPECT_EQ(refusals_.of(Refusal::kDataWorker), 1u);
  EXPECT_EQ(refusals_.of(Refusal::kDataFrame), 0u);
  EXPECT_THAT(router_->last_refusal(),
              HasSubstr("names worker 2 came by a connection of worker 1"));
  EXPECT_EQ(router_->counts().frames_refused, 1u);
  ASSERT_TRUE(dealer->Send(From(1), Buffer()).ok());
  const auto received = router_->Receive(kWait);
  EXPECT_TRUE(received.ok() && received->has_value()) << "its own frames still come";
}

TEST_F(CurveTest, AKeyThatIsTakenOutIsWorthNothingOnAnOpenConnection) {
  const auto dealer = Dial(member_);
  ASSERT_TRUE(dealer->Send(From(1), Buffer()).ok());
  const auto received = router_->Receive(kWait);
  ASSERT_TRUE(received.ok() && received->has_value());
  router_->SetAdmitted({});
  ASSERT_TRUE(dealer->Send(From(1), Buffer()).ok());
  ExpectNothingUntil([&] { return refusals_.of(Refusal::kDataWorker) > 0; });
  EXPECT_THAT(router_->last_refusal(), HasSubstr("no member any more"));
}

TEST_F(CurveTest, TwoRoutersOfAProcessHaveDoorsOfTheirOwn) {
  const CurveKeys other_server = *MakeCurveKeys(), other_member = *MakeCurveKeys();
  Refusals others;
  auto other = Router::Bind("tcp://127.0.0.1:0", {.keys = other_server, .refusals = &others});
  ASSERT_TRUE(other.ok());
  (*other)->SetAdmitted({{1, other_member.public_key}});
  const auto dealer = Dial(other_member);  // at the first one's port
  ASSERT_TRUE(dealer->Send(From(1), Buffer()).ok());
  ExpectNothingUntil([&] { return Refused() > 0; });
  EXPECT_EQ(others.of(Refusal::kDataConnection), 0u);
}

TEST(CurveKeysTest, BothSidesHaveThemOrNone) {
  const CurveKeys keys = *MakeCurveKeys();
  EXPECT_EQ(keys.public_key.size(), kCurveKeyBytes);
  const std::string keyed = WithKey("tcp://127.0.0.1:1", keys.public_key);
  EXPECT_EQ(SplitKey(keyed)->key, keys.public_key);
  EXPECT_EQ(SplitKey(keyed)->endpoint, "tcp://127.0.0.1:1");
  EXPECT_EQ(Dealer::Connect(keyed).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Dealer::Connect("tcp://127.0.0.1:1", {.keys = keys}).status().code(),
            absl::StatusCode::kInvalidArgument);
  for (const std::string& bad : {keyed + "0", keyed.substr(0, keyed.size() - 1),
                                 std::string("tcp://h:1?"), std::string("tcp://h:1?key=")}) {
    EXPECT_EQ(SplitKey(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace longwave
