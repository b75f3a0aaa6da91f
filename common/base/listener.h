#ifndef LONGWAVE_COMMON_BASE_LISTENER_H_
#define LONGWAVE_COMMON_BASE_LISTENER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

struct addrinfo;

namespace longwave {

// A listening TCP socket.
class Listener {
 public:
  // address: "host:port", port 0 for any free one, "[::1]:80" for IPv6. Errors: Unavailable (the
  // port is in use), PermissionDenied, InvalidArgument (not an address, or none of this machine).
  static absl::StatusOr<Listener> Open(const std::string& address);

  Listener(Listener&& other) noexcept { *this = std::move(other); }
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  int fd() const { return fd_; }
  const std::string& host() const { return host_; }  // as it was given
  uint32_t port() const { return port_; }            // the real one

 private:
  Listener(int fd, std::string host) : fd_(fd), host_(std::move(host)) {}
  int Listen(const addrinfo& address);  // errno's value on failure, else 0

  int fd_ = -1;
  std::string host_;
  uint32_t port_ = 0;
};

// Checks that a Listener can open, and returns its host: gRPC alone reports failure without its
// reason. Errors: as Open's.
absl::StatusOr<std::string> CheckListenAddress(const std::string& address);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_LISTENER_H_
