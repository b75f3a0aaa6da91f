#ifndef LONGWAVE_TESTS_SUPPORT_HELD_PORT_H_
#define LONGWAVE_TESTS_SUPPORT_HELD_PORT_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace longwave {

// A reserved TCP port of this machine's loopback. No other process gets it, not even as the local
// end of a connection, for which the kernel may choose any free port. If `listens` is false,
// connections are refused until a server of the test listens on the port, and between two such
// servers.
class HeldPort {
 public:
  explicit HeldPort(bool listens) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;  // as for servers: two such sockets may share a port if one of them listens
    EXPECT_EQ(setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    if (listens) {
      EXPECT_EQ(listen(fd_, 16), 0);
    }
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  ~HeldPort() { close(fd_); }
  const std::string& address() const { return address_; }

 private:
  const int fd_;
  std::string address_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_HELD_PORT_H_
