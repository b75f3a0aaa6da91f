#include "common/base/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

uint32_t PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  const bool is_ipv6 = bound.ss_family == AF_INET6;
  uint16_t port = 0;
  std::memcpy(&port,
              reinterpret_cast<const char*>(&bound) +
                  (is_ipv6 ? offsetof(sockaddr_in6, sin6_port) : offsetof(sockaddr_in, sin_port)),
              sizeof port);
  return ntohs(port);
}

bool IsNotHere(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

}  // namespace

Listener& Listener::operator=(Listener&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(host_, other.host_);
  std::swap(port_, other.port_);
  return *this;
}

Listener::~Listener() {
  if (fd_ >= 0) close(fd_);
}

int Listener::Listen(const addrinfo& address) {
  if (fd_ < 0) return errno;
  const int on = 1;
  // A former process's connections in TIME_WAIT do not block the port, as usual for servers.
  setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd_, address.ai_addr, address.ai_addrlen) != 0 || listen(fd_, SOMAXCONN) != 0)
    return errno;
  port_ = PortOf(fd_);
  return 0;
}

absl::StatusOr<Listener> Listener::Open(const std::string& address) {
  const auto cannot = [&](const std::string& why) {
    return absl::StrCat("cannot listen on ", address, ": ", why);
  };
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      address.find_first_not_of("0123456789", colon + 1) != std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return InvalidArgument(cannot("wanted host:port with a port of 0 … 65535"));
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
    return InvalidArgument(cannot(absl::StrCat("the host: ", gai_strerror(error))));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  int error = EADDRNOTAVAIL;
  // A name may have addresses of both families on a machine that has one.
  for (const addrinfo* one = found; one != nullptr && IsNotHere(error); one = one->ai_next) {
    Listener listener(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), host);
    error = listener.Listen(*one);
    if (error == 0) return listener;
  }
  switch (error) {
    case EADDRINUSE:
      return Unavailable(cannot("the port is in use (wanted a free one; port 0 picks one)"));
    case EACCES:
      return PermissionDenied(cannot("this user may not (ports below 1024 are the system's)"));
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return InvalidArgument(cannot("the host is not an address of this machine"));
    default:
      return Unavailable(cannot(std::strerror(error)));
  }
}

absl::StatusOr<std::string> CheckListenAddress(const std::string& address) {
  LONGWAVE_ASSIGN_OR_RETURN(const Listener listener, Listener::Open(address));
  return listener.host();
}

}  // namespace longwave
