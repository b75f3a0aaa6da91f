#ifndef LONGWAVE_COMMON_BASE_LISTEN_ADDRESS_H_
#define LONGWAVE_COMMON_BASE_LISTEN_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace longwave {

struct ListenAddress {
  std::string host;     // as it was given: "localhost", "[::1]"
  std::string numeric;  // the address that it means: "127.0.0.1", "[::1]"
  uint32_t port = 0;
};

// What "host:port" means, once a socket could listen there. Libraries that serve only say that they
// cannot; this says why, in a sentence: Unavailable (the port is in use), PermissionDenied,
// InvalidArgument (not an address, or none of this machine).
absl::StatusOr<ListenAddress> FindListenAddress(const std::string& address);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_LISTEN_ADDRESS_H_
