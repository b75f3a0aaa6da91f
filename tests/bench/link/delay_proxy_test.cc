#include "cli/bench/delay_proxy.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace longwave {
namespace {

constexpr absl::Duration kDelay = absl::Milliseconds(40);

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Socket() { Close(); }
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  // Closed so, the peer gets a reset.
  void Break() {
    const linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    Close();
  }

 private:
  int fd_;
};

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A proxy between a client and a server of this process.
class DelayProxyTest : public testing::Test {
 protected:
  void SetUp() override {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(listener_.get(), 8), 0);
    ASSERT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    target_port_ = ntohs(address.sin_port);
    StartProxy(size_t{64} << 20);
  }

  void StartProxy(size_t held_bytes_max) {
    auto proxy = DelayProxy::Start({.target_address = "127.0.0.1",
                                    .target_port = target_port_,
                                    .delay = kDelay,
                                    .held_bytes_max = held_bytes_max});
    ASSERT_TRUE(proxy.ok()) << proxy.status();
    proxy_ = *std::move(proxy);
  }

  Socket Connect() {
    Socket client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = Loopback(proxy_->port());
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    return client;
  }

  Socket Accept() { return Socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

  static void SendAll(const Socket& socket, const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t put =
          send(socket.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      ASSERT_GT(put, 0);
      sent += static_cast<size_t>(put);
    }
  }

  // Up to the end, or `count` bytes.
  static std::string ReadUpTo(const Socket& socket, size_t count) {
    std::string bytes;
    char buffer[65536];
    while (bytes.size() < count) {
      const size_t wanted = std::min(sizeof buffer, count - bytes.size());
      const ssize_t got = recv(socket.get(), buffer, wanted, 0);
      if (got <= 0) break;
      bytes.append(buffer, static_cast<size_t>(got));
    }
    return bytes;
  }

  // The errno that the next read ends with; 0: it got bytes or the end.
  static int ReadError(const Socket& socket) {
    char byte;
    return recv(socket.get(), &byte, 1, 0) < 0 ? errno : 0;
  }

  Socket listener_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  uint16_t target_port_ = 0;
  std::unique_ptr<DelayProxy> proxy_;
};

std::string Pattern(size_t size, uint32_t seed) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<char>(seed >> 24);
  }
  return bytes;
}

TEST_F(DelayProxyTest, KeepsBytesAndTheirOrderBothWays) {
  const Socket client = Connect(), server = Accept();
  const std::string up = Pattern(3'000'000, 1), down = Pattern(2'000'000, 2);
  std::thread sending_up([&] { SendAll(client, up); });
  std::thread sending_down([&] { SendAll(server, down); });
  std::string got_up;
  std::thread receiving([&] { got_up = ReadUpTo(server, up.size()); });
  EXPECT_EQ(ReadUpTo(client, down.size()), down);
  receiving.join();
  EXPECT_EQ(got_up, up);
  sending_up.join();
  sending_down.join();
}

TEST_F(DelayProxyTest, DelaysEveryByteByAtLeastTheDelay) {
  const Socket client = Connect(), server = Accept();
  for (int i = 0; i < 3; ++i) {
    const absl::Time sent = MonotonicNow();
    SendAll(client, "ping");
    EXPECT_EQ(ReadUpTo(server, 4), "ping");
    EXPECT_GE(MonotonicNow() - sent, kDelay);
    const absl::Time answered = MonotonicNow();
    SendAll(server, "pong");
    EXPECT_EQ(ReadUpTo(client, 4), "pong");
    EXPECT_GE(MonotonicNow() - answered, kDelay);
  }
}

TEST_F(DelayProxyTest, PassesHalfClosedConnectionsOn) {
  const Socket client = Connect(), server = Accept();
  SendAll(client, "question");
  ASSERT_EQ(shutdown(client.get(), SHUT_WR), 0);
  EXPECT_EQ(ReadUpTo(server, 1000), "question");  // and the end, else this would wait
  // The other direction is open still.
  SendAll(server, "answer");
  ASSERT_EQ(shutdown(server.get(), SHUT_WR), 0);
  EXPECT_EQ(ReadUpTo(client, 1000), "answer");
}

TEST_F(DelayProxyTest, PassesTheClientsResetOn) {
  Socket client = Connect();
  const Socket server = Accept();
  const absl::Time begin = MonotonicNow();
  client.Break();
  EXPECT_EQ(ReadError(server), ECONNRESET);
  EXPECT_GE(MonotonicNow() - begin, kDelay);
}

TEST_F(DelayProxyTest, PassesTheServersResetOn) {
  const Socket client = Connect();
  Accept().Break();
  EXPECT_EQ(ReadError(client), ECONNRESET);
}

TEST_F(DelayProxyTest, BreaksConnectionsThatTheTargetRefuses) {
  listener_.Close();
  const Socket client = Connect();  // the proxy takes it before it knows
  EXPECT_EQ(ReadError(client), ECONNRESET);
}

TEST_F(DelayProxyTest, HoldsNoMoreThanItsBoundAndLosesNothing) {
  StartProxy(100'000);
  const Socket client = Connect(), server = Accept();
  const std::string bytes = Pattern(5'000'000, 3);
  std::thread sending([&] { SendAll(client, bytes); });
  EXPECT_EQ(ReadUpTo(server, bytes.size()), bytes);
  sending.join();
}

TEST_F(DelayProxyTest, ServesConnectionsSideBySide) {
  std::vector<Socket> clients, servers;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(Connect());
    servers.push_back(Accept());
  }
  for (size_t i = 0; i < clients.size(); ++i) SendAll(clients[i], std::to_string(i));
  for (size_t i = 0; i < servers.size(); ++i) {
    EXPECT_EQ(ReadUpTo(servers[i], 1), std::to_string(i));
  }
}

TEST_F(DelayProxyTest, BreaksWhatIsLeftAtItsEnd) {
  const Socket client = Connect(), server = Accept();
  proxy_.reset();
  EXPECT_EQ(ReadError(client), ECONNRESET);
  EXPECT_EQ(ReadError(server), ECONNRESET);
}

TEST(DelayProxyStart, RefusesWhatIsNoAddress) {
  const auto proxy = DelayProxy::Start({.target_address = "shard-0", .target_port = 1});
  EXPECT_EQ(proxy.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(proxy.status().message()), testing::HasSubstr("shard-0"));
}

TEST(DelayProxyStart, RefusesAPortThatIsTaken) {
  const auto first = DelayProxy::Start({.target_address = "127.0.0.1", .target_port = 1});
  ASSERT_TRUE(first.ok());
  const auto second = DelayProxy::Start(
      {.listen_port = (*first)->port(), .target_address = "127.0.0.1", .target_port = 1});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace longwave
