// What becomes of those who do not get through a router's door: counted once, each for what it was,
// and with its address where that is known. The clock is the test's.
#include "common/link/doorkeeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "tests/support/held_port.h"
#include "tests/support/tcp_client.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// A router of ZeroMQ's own behind a door.
class DoorTest : public ::testing::Test {
 protected:
  DoorTest() : context_(std::make_shared<zmq::context_t>(1)) {
    keeper_ = std::make_unique<Doorkeeper>(context_, [this] { return Clock(); });
    door_ = keeper_->Open();
    router_ = std::make_unique<zmq::socket_t>(*context_, zmq::socket_type::router);
    router_->set(zmq::sockopt::linger, 0);
    router_->set(zmq::sockopt::curve_server, true);
    EXPECT_EQ(zmq_setsockopt(router_->handle(), ZMQ_CURVE_SECRETKEY, server_.secret_key.data(),
                             server_.secret_key.size()),
              0);
    router_->set(zmq::sockopt::zap_domain, door_->domain);
    EXPECT_EQ(zmq_socket_monitor(router_->handle(), door_->monitor.c_str(),
                                 ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                     ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_DISCONNECTED),
              0);
    keeper_->Watch(door_);
  }
  ~DoorTest() override {
    zmq_socket_monitor(router_->handle(), nullptr, 0);
    keeper_->Close(door_);
    router_.reset();
    keeper_.reset();
  }

  // Read once for each thing that is told: who comes, that it failed, its end.
  absl::Time Clock() { return At(seconds_ = seconds_ + step_); }

  void Listen() {
    router_->bind("tcp://127.0.0.1:*");
    endpoint_ = router_->get(zmq::sockopt::last_endpoint);
  }
  // A connection of which the doorkeeper has heard: ZeroMQ greets it after it has told of it.
  int Connect(const char* from = "127.0.0.1") {
    const int fd = ConnectTo(endpoint_, from);
    char greeting[10];
    EXPECT_EQ(recv(fd, greeting, sizeof greeting, MSG_WAITALL), ssize_t{sizeof greeting});
    Settle();
    return fd;
  }
  // Returns once all that ZeroMQ has told was heard.
  void Settle() { keeper_->Watch(door_); }
  // Says that until it is hung up on, which ZeroMQ tells before.
  void SayUntilTheEnd(int fd, const std::string& bytes) {
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
    EXPECT_TRUE(HungUp(fd, kPatience));
    Settle();
  }
  DoorCounts counts() const {
    const std::lock_guard lock(door_->mutex);
    return door_->counts;
  }
  std::vector<Knock> knocks() const {
    const std::lock_guard lock(door_->mutex);
    return door_->knocks;
  }
  template <typename IsSo>
  static void Await(const IsSo& is_so) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!is_so()) {
      ASSERT_LT(absl::Now(), deadline);
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  const CurveKeys server_ = *MakeCurveKeys();
  std::shared_ptr<zmq::context_t> context_;
  std::atomic<double> seconds_{1000};
  std::atomic<double> step_{0};
  std::unique_ptr<Doorkeeper> keeper_;
  std::shared_ptr<Doorkeeper::Door> door_;
  std::unique_ptr<zmq::socket_t> router_;
  std::string endpoint_;
};

TEST_F(DoorTest, WrongWordsAreAStrangersWhoseAddressIsKnown) {
  Listen();
  const int bystander = Connect("127.0.0.2");
  const int plain = Connect(), forged = Connect();
  SayUntilTheEnd(plain, ZmtpGreeting("NULL"));
  EXPECT_EQ(counts().handshakes, 1u);
  EXPECT_EQ(counts().last_handshake,
            absl::StrCat("a connection to the data port: it does not speak CURVE: a plain client, "
                         "from ",
                         AddressOf(plain)));
  SayUntilTheEnd(forged, ForgedHello());
  EXPECT_EQ(counts().handshakes, 2u);
  EXPECT_EQ(counts().closed, 0u);
  const std::vector<Knock> all = knocks();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(all[1].sentence, HasSubstr("another key of this shard"));
  for (const Knock& knock : all) {
    EXPECT_EQ(knock.counted, &DoorCounts::handshakes);
    EXPECT_EQ(knock.peer, "127.0.0.1");
  }
  EXPECT_EQ(all[0].from, AddressOf(plain));
  EXPECT_EQ(all[1].from, AddressOf(forged));
  for (const int fd : {bystander, plain, forged}) close(fd);
}

// On a port of both families, as a pod's may be. The other ports call the same client the same.
TEST_F(DoorTest, AnAddressOfIPv4IsSaidAsSuch) {
  router_->set(zmq::sockopt::ipv6, true);
  try {
    router_->bind("tcp://[::]:*");
  } catch (const zmq::error_t& error) {
    GTEST_SKIP() << "this machine has no IPv6: " << error.what();
  }
  endpoint_ = router_->get(zmq::sockopt::last_endpoint);
  const int plain = Connect();
  SayUntilTheEnd(plain, ZmtpGreeting("NULL"));
  const std::vector<Knock> all = knocks();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].peer, "127.0.0.1");
  EXPECT_EQ(all[0].from, AddressOf(plain));
  close(plain);
}

// As health checks do, scans of ports, and `longwave doctor` with each join.
TEST_F(DoorTest, WhoClosesItsConnectionItselfIsCountedApart) {
  Listen();
  constexpr uint64_t kTimes = 20;
  for (uint64_t i = 0; i < kTimes; ++i) close(ConnectTo(endpoint_));
  Await([&] { return counts().closed == kTimes; });
  const int once = Connect();
  const std::string address = AddressOf(once);
  EXPECT_EQ(write(once, "\xff", 1), 1);  // no more of a greeting
  close(once);
  Await([&] { return counts().closed > kTimes; });
  EXPECT_EQ(counts().closed, kTimes + 1);
  EXPECT_EQ(counts().handshakes, 0u);
  EXPECT_THAT(counts().last_closed, HasSubstr("a health check"));
  EXPECT_THAT(counts().last_closed, HasSubstr("from " + address));
}

TEST_F(DoorTest, WhoSaysNothingUntilItIsLetGoIsAStranger) {
  router_->set(zmq::sockopt::handshake_ivl, 500);
  Listen();
  close(Connect());  // leaves its error behind, which ZeroMQ then tells of the next one, too
  Await([&] { return counts().closed == 1; });
  step_ = 2.5;
  const int silent = Connect();
  EXPECT_TRUE(HungUp(silent, kPatience));
  Settle();
  EXPECT_EQ(counts().handshakes, 1u);
  EXPECT_EQ(counts().closed, 1u);
  EXPECT_THAT(counts().last_handshake, HasSubstr("did not go on"));
  EXPECT_EQ(knocks().back().from, AddressOf(silent));
  close(silent);
}

TEST_F(DoorTest, AMembersConnectionEndsUnnoticed) {
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
  // Its connection has ended with its context; who comes now is heard of after that.
  close(Connect());
  Await([&] { return counts().closed > 0; });
  EXPECT_EQ(counts().closed, 1u);
  EXPECT_EQ(counts().handshakes, 0u);
  EXPECT_EQ(counts().keys, 0u);
}

using Told = Doorkeeper::Told;

Told Came(int fd) {
  const std::string host = absl::StrCat("10.0.0.", fd);
  return {ZMQ_EVENT_ACCEPTED, uint32_t(fd), {host, host + ":1"}};
}
Told Failed(int error) { return {ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL, uint32_t(error), {}}; }
Told Plain() {
  return {ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL, ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH, {}};
}
Told Went(int fd) { return {ZMQ_EVENT_DISCONNECTED, uint32_t(fd), {}}; }

// Several threads for input and output tell at once.
TEST(DoorBook, FailuresThatAreMixedUpCountOnceEachAndNameNobody) {
  Doorkeeper::Door door;
  for (const Told& told : {Came(5), Came(6), Came(7), Failed(EPIPE), Failed(ECONNRESET), Plain(),
                           Went(5), Went(6), Went(7)})
    Doorkeeper::HearOf(told, At(0), door);
  EXPECT_EQ(door.counts.closed, 2u);
  EXPECT_EQ(door.counts.handshakes, 1u);
  for (const Knock& knock : door.knocks) EXPECT_EQ(knock.from, "");
  EXPECT_TRUE(door.guests.empty());
  // And from then on they are told apart again.
  for (const Told& told : {Came(8), Plain(), Went(8)}) Doorkeeper::HearOf(told, At(0), door);
  EXPECT_EQ(door.counts.handshakes, 2u);
  EXPECT_EQ(door.knocks.back().from, "10.0.0.8:1");
}

TEST(DoorBook, WhoHangsUpIsNoStrangerAlsoWhereNobodyKnowsWhoItWas) {
  Doorkeeper::Door door;
  for (const Told& told : {Failed(EPIPE), Went(5)}) Doorkeeper::HearOf(told, At(0), door);
  EXPECT_EQ(door.counts.closed, 1u);
  EXPECT_EQ(door.counts.handshakes, 0u);
  EXPECT_THAT(door.counts.last_closed, HasSubstr("an address that was gone too soon"));
}

TEST(DoorBook, WhoCameLongAgoWasThroughAndIsNotBlamed) {
  Doorkeeper::Door door;
  Doorkeeper::HearOf(Came(5), At(0), door);
  Doorkeeper::HearOf(Came(6), At(60), door);
  Doorkeeper::HearOf(Plain(), At(60), door);
  Doorkeeper::HearOf(Went(5), At(60), door);  // of another thread
  Doorkeeper::HearOf(Went(6), At(60), door);
  EXPECT_EQ(door.counts.handshakes, 1u);
  EXPECT_EQ(door.knocks.back().from, "");
}

// Says to a monitor what ZeroMQ would.
class MonitorTest : public ::testing::Test {
 protected:
  MonitorTest() : port_(/*listens=*/true), local_("tcp://" + port_.address()) {
    here_.bind("inproc://monitor");
    there_.connect("inproc://monitor");
  }
  void Tell(uint16_t event, int fd, const std::string& where) {
    const auto value = static_cast<uint32_t>(fd);
    char what[sizeof event + sizeof value];
    std::memcpy(what, &event, sizeof event);
    std::memcpy(what + sizeof event, &value, sizeof value);
    here_.send(zmq::buffer(what), zmq::send_flags::sndmore);
    here_.send(zmq::buffer(where), zmq::send_flags::none);
  }
  std::vector<std::string> Addresses() {
    std::vector<std::string> all;
    for (const Told& told : Doorkeeper::TakeTold(there_)) all.push_back(told.peer.address);
    return all;
  }

  const HeldPort port_;
  const std::string local_;
  zmq::context_t context_{0};
  zmq::socket_t here_{context_, zmq::socket_type::pair};
  zmq::socket_t there_{context_, zmq::socket_type::pair};
};

TEST_F(MonitorTest, AnAddressIsThatOfTheConnectionThatIsTold) {
  const int client = ConnectTo(port_.address());
  const int accepted = port_.Accept();
  Tell(ZMQ_EVENT_ACCEPTED, accepted, local_);
  EXPECT_THAT(Addresses(), ElementsAre(AddressOf(client)));
  // Its descriptor was used again before it could be asked about: for a connection at another port,
  Tell(ZMQ_EVENT_ACCEPTED, accepted, "tcp://127.0.0.1:1");
  Tell(ZMQ_EVENT_DISCONNECTED, accepted, "tcp://127.0.0.1:1");
  EXPECT_THAT(Addresses(), ElementsAre("", ""));
  // and for the next one at this.
  Tell(ZMQ_EVENT_ACCEPTED, accepted, local_);
  Tell(ZMQ_EVENT_DISCONNECTED, accepted, local_);
  Tell(ZMQ_EVENT_ACCEPTED, accepted, local_);
  EXPECT_THAT(Addresses(), ElementsAre("", "", AddressOf(client)));
  close(accepted);
  close(client);
}

}  // namespace
}  // namespace longwave
