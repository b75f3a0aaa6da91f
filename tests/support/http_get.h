#ifndef LONGWAVE_TESTS_SUPPORT_HTTP_GET_H_
#define LONGWAVE_TESTS_SUPPORT_HTTP_GET_H_

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/support/tcp_client.h"

namespace longwave {

struct HttpAnswer {
  int status = 0;
  std::string head, body;
};

// The server's answer until it closes the connection; status 0: no answer.
inline HttpAnswer ReadAnswer(int fd) {
  std::string text;
  char buffer[1 << 16];
  for (ssize_t got; (got = read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  close(fd);
  const size_t end = text.find("\r\n\r\n");
  if (end == std::string::npos) return {};
  return {std::atoi(text.c_str() + text.find(' ')), text.substr(0, end), text.substr(end + 4)};
}

// The server's answer to these bytes.
inline HttpAnswer SendRaw(const std::string& address, const std::string& bytes) {
  const int fd = ConnectTo(address);
  if (fd < 0) return {};
  // The answer shows whether all of it was sent.
  static_cast<void>(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  return ReadAnswer(fd);
}

inline HttpAnswer Request(const std::string& address, const std::string& method,
                          const std::string& path) {
  return SendRaw(address, method + " " + path + " HTTP/1.1\r\nHost: test\r\n\r\n");
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_HTTP_GET_H_
