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
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace longwave {

// A connection without a word, to loopback: "127.0.0.1:port" or "tcp://127.0.0.1:port?key=…"; from
// an address of this machine. −1: nobody listens.
inline int ConnectTo(const std::string& address, const char* from = "127.0.0.1") {
  const std::string plain = address.substr(0, address.find('?'));
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(plain.substr(plain.rfind(':') + 1), &port)) << address;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{}, to{};
  own.sin_family = AF_INET;
  EXPECT_EQ(inet_pton(AF_INET, from, &own.sin_addr), 1);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return fd;
  close(fd);
  return -1;
}

// The connection's own end.
inline std::string AddressOf(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  char host[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address.sin_addr, host, sizeof host);
  return absl::StrCat(host, ":", ntohs(address.sin_port));
}

// Reads until the other side hangs up.
inline bool HungUp(int fd, absl::Duration patience) {
  char bytes[4096];
  for (;;) {
    pollfd item = {fd, POLLIN, 0};
    if (poll(&item, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) <= 0) return false;
    if (read(fd, bytes, sizeof bytes) <= 0) return true;
  }
}

// What a client of ZeroMQ begins with (ZMTP 3.1), by its mechanism: "NULL", "CURVE".
inline std::string ZmtpGreeting(const std::string& mechanism) {
  std::string greeting(64, '\0');
  greeting[0] = '\xff';
  greeting[9] = '\x7f';
  greeting[10] = 3;
  greeting[11] = 1;
  return greeting.replace(12, mechanism.size(), mechanism);
}
// A greeting and a HELLO whose box is no key's.
inline std::string ForgedHello() {
  return ZmtpGreeting("CURVE") + std::string("\x04\xc8\x05HELLO\x01\x00", 10) +
         std::string(192, '\x5a');
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_TCP_CLIENT_H_
