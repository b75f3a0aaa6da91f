// Callers that a router's port refuses: each is counted once, by its kind.
#include "common/link/doorkeeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <zmq.hpp>

#include "absl/time/clock.h"
#include "tests/support/tcp_client.h"

namespace longwave {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

// A ZeroMQ router behind the port's admission.
class DoorTest : public ::testing::Test {
 protected:
  DoorTest() : context_(std::make_shared<zmq::context_t>(1)) {
    keeper_ = std::make_unique<Doorkeeper>(context_);
    door_ = keeper_->Open(&refusals_);
    router_ = std::make_unique<zmq::socket_t>(*context_, zmq::socket_type::router);
    router_->set(zmq::sockopt::linger, 0);
    router_->set(zmq::sockopt::curve_server, true);
    EXPECT_EQ(zmq_setsockopt(router_->handle(), ZMQ_CURVE_SECRETKEY, server_.secret_key.data(),
                             server_.secret_key.size()),
              0);
    router_->set(zmq::sockopt::zap_domain, door_->domain);
    EXPECT_EQ(zmq_socket_monitor(
                  router_->handle(), door_->monitor.c_str(),
                  ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL),
              0);
    keeper_->Watch(door_);
  }
  ~DoorTest() override {
    zmq_socket_monitor(router_->handle(), nullptr, 0);
    keeper_->Close(door_);
    router_.reset();
    keeper_.reset();
  }

  void Listen() {
    router_->bind("tcp://127.0.0.1:*");
    endpoint_ = router_->get(zmq::sockopt::last_endpoint);
  }
  // A connection that ZeroMQ has greeted.
  int Connect() {
    const int fd = ConnectTo(endpoint_);
    char greeting[10];
    EXPECT_EQ(recv(fd, greeting, sizeof greeting, MSG_WAITALL), ssize_t{sizeof greeting});
    return fd;
  }
  // Sends the bytes until the peer closes the connection, which ZeroMQ reports first.
  void SayUntilTheEnd(const std::string& bytes) {
    const int fd = Connect();
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
    EXPECT_TRUE(HungUp(fd, kPatience));
    close(fd);
    keeper_->Watch(door_);  // returns once all that ZeroMQ has told was heard
  }
  void Await(Refusal refusal, uint64_t count) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (refusals_.of(refusal) < count) {
      ASSERT_LT(absl::Now(), deadline);
      absl::SleepFor(absl::Milliseconds(5));
    }
    EXPECT_EQ(refusals_.of(refusal), count);
  }

  const CurveKeys server_ = *MakeCurveKeys();
  Refusals refusals_;
  std::shared_ptr<zmq::context_t> context_;
  std::unique_ptr<Doorkeeper> keeper_;
  std::shared_ptr<Doorkeeper::Door> door_;
  std::unique_ptr<zmq::socket_t> router_;
  std::string endpoint_;
};

TEST_F(DoorTest, WrongWordsAreAFailedHandshake) {
  Listen();
  const int bystander = Connect();
  ::testing::internal::CaptureStderr();
  SayUntilTheEnd(ZmtpGreeting("NULL"));
  EXPECT_EQ(refusals_.of(Refusal::kDataHandshake), 1u);
  SayUntilTheEnd(ForgedHello());
  EXPECT_EQ(refusals_.of(Refusal::kDataHandshake), 2u);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ::testing::HasSubstr("it does not speak CURVE: a plain client"));
  EXPECT_THAT(log, ::testing::HasSubstr("another key of this shard"));
  EXPECT_EQ(refusals_.of(Refusal::kDataClosed), 0u);
  close(bystander);
}

// Health checks, port scans and `longwave doctor` at each join connect like this.
TEST_F(DoorTest, WhoClosesItsConnectionItselfIsCountedApart) {
  Listen();
  constexpr uint64_t kTimes = 20;
  for (uint64_t i = 0; i < kTimes; ++i) close(ConnectTo(endpoint_));
  Await(Refusal::kDataClosed, kTimes);
  const int once = Connect();
  EXPECT_EQ(write(once, "\xff", 1), 1);  // no more of a greeting
  close(once);
  Await(Refusal::kDataClosed, kTimes + 1);
  EXPECT_EQ(refusals_.of(Refusal::kDataHandshake), 0u);
}

TEST_F(DoorTest, WhoSaysNothingIsLetGoAndCounted) {
  router_->set(zmq::sockopt::handshake_ivl, 500);
  Listen();
  const int silent = Connect();
  EXPECT_TRUE(HungUp(silent, kPatience));
  keeper_->Watch(door_);
  EXPECT_EQ(refusals_.of(Refusal::kDataHandshake) + refusals_.of(Refusal::kDataClosed), 1u);
  close(silent);
}

TEST_F(DoorTest, AMembersConnectionEndsUncounted) {
  Listen();
  const CurveKeys member = *MakeCurveKeys();
  door_->admitted.Set({{1, member.public_key}});
  {
    zmq::context_t context;
    zmq::socket_t dealer(context, zmq::socket_type::dealer);
    const auto set = [&](int option, const std::string& key) {
      EXPECT_EQ(zmq_setsockopt(dealer.handle(), option, key.data(), key.size()), 0);
    };
    dealer.set(zmq::sockopt::linger, 0);
    set(ZMQ_CURVE_SERVERKEY, server_.public_key);
    set(ZMQ_CURVE_PUBLICKEY, member.public_key);
    set(ZMQ_CURVE_SECRETKEY, member.secret_key);
    dealer.connect(endpoint_);
    dealer.send(zmq::str_buffer("a word"), zmq::send_flags::none);
    zmq::message_t peer, word;
    ASSERT_TRUE(router_->recv(peer) && router_->recv(word));
    EXPECT_EQ(word.to_string(), "a word");
  }
  // The connection has ended with its context; the next one is reported after that.
  close(Connect());
  Await(Refusal::kDataClosed, 1);
  EXPECT_EQ(refusals_.of(Refusal::kDataHandshake), 0u);
  EXPECT_EQ(refusals_.of(Refusal::kDataKey), 0u);
}

}  // namespace
}  // namespace longwave
