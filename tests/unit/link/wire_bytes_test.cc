// The bytes that a link counts are those of its TCP connection, which the kernel counts, too.

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/link/link.h"
#include "gtest/gtest.h"

namespace longwave {
namespace {

constexpr absl::Duration kWait = absl::Seconds(60);
constexpr int kDescriptorsMax = 1024;

// 0: not a TCP connection. A dealer's is of IPv6, as which it reaches IPv4 too.
uint16_t PortOf(int fd, decltype(&getsockname) name) {
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  if (name(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.sin6_family != AF_INET && address.sin6_family != AF_INET6) return 0;
  return ntohs(address.sin6_port);  // in the same place in both families
}

// The process's own ends of the connection at a local port; −1: none.
struct Ends {
  int accepted = -1;
  int connected = -1;
};
Ends EndsAt(uint16_t port) {
  Ends ends;
  for (int fd = 0; fd < kDescriptorsMax; ++fd) {
    if (PortOf(fd, &getpeername) == 0) continue;
    if (PortOf(fd, &getsockname) == port) ends.accepted = fd;
    if (PortOf(fd, &getpeername) == port) ends.connected = fd;
  }
  return ends;
}

uint64_t BytesReceived(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  EXPECT_GE(size, offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received);
  return info.tcpi_bytes_received;
}

class WireBytes : public ::testing::TestWithParam<Encryption> {
 protected:
  void SetUp() override {
    const bool encrypts = GetParam() == Encryption::kCurve;
    const CurveKeys server = encrypts ? *MakeCurveKeys() : CurveKeys();
    const CurveKeys member = encrypts ? *MakeCurveKeys() : CurveKeys();
    auto router = Router::Bind("tcp://127.0.0.1:0", {.keys = server});
    ASSERT_TRUE(router.ok()) << router.status();
    router_ = *std::move(router);
    if (encrypts) router_->SetAdmitted({{1, member.public_key}});
    auto dealer =
        Dealer::Connect(WithKey(router_->endpoint(), server.public_key), {.keys = member});
    ASSERT_TRUE(dealer.ok()) << dealer.status();
    dealer_ = *std::move(dealer);
    EXPECT_EQ(router_->encryption(), GetParam());
    EXPECT_EQ(dealer_->encryption(), GetParam());
  }

  // A frame up, and one of the same size down; returns once both are there.
  void Exchange(size_t payload_bytes) {
    PushFrame header;
    header.worker = 1;
    const Buffer payload(std::vector<std::byte>(payload_bytes, std::byte{7}));
    ASSERT_TRUE(dealer_->Send(header, payload).ok());
    const auto up = router_->Receive(kWait);
    ASSERT_TRUE(up.ok() && up->has_value()) << "nothing came: " << router_->last_refusal();
    ASSERT_TRUE(router_->Send((*up)->peer, MergedFrame(), payload).ok());
    const auto down = dealer_->Receive(kWait);
    ASSERT_TRUE(down.ok() && down->has_value()) << "nothing came: " << dealer_->last_refusal();
  }

  std::unique_ptr<Router> router_;
  std::unique_ptr<Dealer> dealer_;
};

TEST_P(WireBytes, AreWhatTheKernelCountsOfTheConnection) {
  ASSERT_NO_FATAL_FAILURE(Exchange(1));  // greeting and handshake are done behind it
  const std::string endpoint = router_->endpoint();
  const Ends ends = EndsAt(static_cast<uint16_t>(std::atoi(&endpoint[endpoint.rfind(':') + 1])));
  ASSERT_GE(ends.accepted, 0);
  ASSERT_GE(ends.connected, 0);
  // On both sides of where ZMTP's length gets long, in the clear and within CURVE's command.
  for (const size_t size : {0, 1, 221, 222, 223, 224, 254, 255, 256, 257, 8192, 100'000}) {
    const LinkCounts at_router = router_->counts();
    const LinkCounts at_dealer = dealer_->counts();
    const uint64_t up = BytesReceived(ends.accepted);
    const uint64_t down = BytesReceived(ends.connected);
    ASSERT_NO_FATAL_FAILURE(Exchange(size));
    const uint64_t crossed_up = BytesReceived(ends.accepted) - up;
    const uint64_t crossed_down = BytesReceived(ends.connected) - down;
    EXPECT_EQ(crossed_up, FrameWireBytes(size, GetParam())) << size << " bytes of payload";
    EXPECT_EQ(dealer_->counts().sent - at_dealer.sent, crossed_up) << size;
    EXPECT_EQ(router_->counts().received - at_router.received, crossed_up) << size;
    EXPECT_EQ(router_->counts().sent - at_router.sent, crossed_down) << size;
    EXPECT_EQ(dealer_->counts().received - at_dealer.received, crossed_down) << size;
  }
  for (const LinkCounts& counts : {router_->counts(), dealer_->counts()}) {
    EXPECT_EQ(counts.sent, counts.sent_by_kind.Total().bytes);
    EXPECT_EQ(counts.received, counts.received_by_kind.Total().bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Links, WireBytes, ::testing::Values(Encryption::kNone, Encryption::kCurve),
                         [](const auto& info) {
                           return info.param == Encryption::kCurve ? "Curve" : "Plain";
                         });

}  // namespace
}  // namespace longwave
