#ifndef LONGWAVE_TESTS_SUPPORT_TCP_CLIENT_H_
#define LONGWAVE_TESTS_SUPPORT_TCP_CLIENT_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"

namespace longwave {

// A connection to loopback that sends nothing: "127.0.0.1:port" or "tcp://127.0.0.1:port?key=…".
// −1: refused.
inline int ConnectTo(const std::string& address) {
  const std::string plain = address.substr(0, address.find('?'));
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(plain.substr(plain.rfind(':') + 1), &port)) << address;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return fd;
  close(fd);
  return -1;
}

// Reads until the peer closes the connection.
inline bool HungUp(int fd, absl::Duration patience) {
  char bytes[4096];
  for (;;) {
    pollfd item = {fd, POLLIN, 0};
    if (poll(&item, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) <= 0) return false;
    if (read(fd, bytes, sizeof bytes) <= 0) return true;
  }
}

// The greeting of a ZeroMQ client (ZMTP 3.1), by its mechanism: "NULL", "CURVE".
inline std::string ZmtpGreeting(const std::string& mechanism) {
  std::string greeting(64, '\0');
  greeting[0] = '\xff';
  greeting[9] = '\x7f';
  greeting[10] = 3;
  greeting[11] = 1;
  return greeting.replace(12, mechanism.size(), mechanism);
}
// A greeting and a HELLO whose box no key has made.
inline std::string ForgedHello() {
  return ZmtpGreeting("CURVE") + std::string("\x04\xc8\x05HELLO\x01\x00", 10) +
         std::string(192, '\x5a');
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_TCP_CLIENT_H_
