#ifndef LONGWAVE_TESTS_SUPPORT_TCP_CLIENT_H_
#define LONGWAVE_TESTS_SUPPORT_TCP_CLIENT_H_

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/time/time.h"

namespace longwave {

// A connection that sends nothing, to "host:port" or "tcp://host:port?key=…". −1: refused.
inline int ConnectTo(const std::string& address) {
  std::string host = address.substr(0, address.find('?'));
  const std::string port = host.substr(host.rfind(':') + 1);
  host.resize(host.rfind(':'));
  if (host.starts_with("tcp://")) host.erase(0, 6);
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    close(fd);
    fd = -1;
  }
  freeaddrinfo(found);
  return fd;
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
