#include "common/base/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

// Listens on the address for a moment; errno's value if it cannot.
int TryListening(const addrinfo& address) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  // As servers do: connections of a former process that are still fading away don't count.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int error = 0;
  if (bind(fd, address.ai_addr, address.ai_addrlen) != 0 || listen(fd, 1) != 0) error = errno;
  close(fd);
  return error;
}

// "127.0.0.1", "[::1]".
std::string Numeric(const addrinfo& address) {
  char text[NI_MAXHOST] = "";
  getnameinfo(address.ai_addr, address.ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return address.ai_family == AF_INET6 ? absl::StrCat("[", text, "]") : std::string(text);
}

}  // namespace

absl::StatusOr<ListenAddress> FindListenAddress(const std::string& address) {
  const auto cannot = [&](const std::string& why) {
    return absl::StrCat("cannot listen on ", address, ": ", why);
  };
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      address.find_first_not_of("0123456789", colon + 1) != std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(cannot("wanted host:port with a port of 0 … 65535"));
  }
  const std::string host = address.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;

  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(name.c_str(), absl::StrCat(port).c_str(), &hints, &found);
      error != 0) {
    return absl::InvalidArgumentError(cannot(absl::StrCat("the host: ", gai_strerror(error))));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  switch (const int error = TryListening(*found); error) {
    case 0:
      return ListenAddress{.host = host, .numeric = Numeric(*found), .port = port};
    case EADDRINUSE:
      return absl::UnavailableError(
          cannot("the port is in use (wanted a free one; port 0 picks one)"));
    case EACCES:
      return absl::PermissionDeniedError(
          cannot("this user may not (ports below 1024 are the system's)"));
    case EADDRNOTAVAIL:
      return absl::InvalidArgumentError(cannot("the host is not an address of this machine"));
    default:
      return absl::UnavailableError(cannot(std::strerror(error)));
  }
}

}  // namespace longwave
