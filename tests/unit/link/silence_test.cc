// Socket options of a router for connections without traffic.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "common/link/link.h"
#include "gtest/gtest.h"

namespace longwave {
namespace {

constexpr int kSilentDescriptorsMax = 1024;

int OptionOf(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
}

// The process's own end of a connection at the local port; −1: none.
int AcceptedAt(uint16_t port) {
  for (int fd = 0; fd < kSilentDescriptorsMax; ++fd) {
    sockaddr_in own{}, peer{};
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
        own.sin_family == AF_INET && ntohs(own.sin_port) == port &&
        getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0) {
      return fd;
    }
  }
  return -1;
}

TEST(LinkSilence, TcpAsksAnIdleConnectionOfARouterAndGivesItUpAfterAMinute) {
  auto router = Router::Bind("tcp://127.0.0.1:0");
  ASSERT_TRUE(router.ok()) << router.status();
  auto dealer = Dealer::Connect((*router)->endpoint());
  ASSERT_TRUE(dealer.ok()) << dealer.status();
  const auto frame = Seal(HelloFrame(), Buffer());
  ASSERT_TRUE(frame.ok()) << frame.status();
  ASSERT_TRUE((*dealer)->Send(*frame).ok());
  const auto received = (*router)->Receive(absl::Seconds(30));
  ASSERT_TRUE(received.ok() && received->has_value()) << received.status();

  const std::string endpoint = (*router)->endpoint();
  const auto port = static_cast<uint16_t>(std::atoi(&endpoint[endpoint.rfind(':') + 1]));
  const int fd = AcceptedAt(port);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(OptionOf(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
  const int idle = OptionOf(fd, IPPROTO_TCP, TCP_KEEPIDLE);
  const int interval = OptionOf(fd, IPPROTO_TCP, TCP_KEEPINTVL);
  const int count = OptionOf(fd, IPPROTO_TCP, TCP_KEEPCNT);
  EXPECT_EQ(idle + interval * count, 60) << idle << " + " << interval << " * " << count;
  EXPECT_EQ(OptionOf(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 60'000);
}

}  // namespace
}  // namespace longwave
