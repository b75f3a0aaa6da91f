#ifndef LONGWAVE_COMMON_RPC_LISTEN_CHECK_H_
#define LONGWAVE_COMMON_RPC_LISTEN_CHECK_H_

#include <string>

#include "absl/status/statusor.h"

namespace longwave {

// Checks that a socket can listen at "host:port", and returns the host ("[::1]:80" gives "[::1]").
// gRPC alone reports failure without its reason. Errors: Unavailable (the port is in use),
// PermissionDenied, InvalidArgument (not an address, or none of this machine).
absl::StatusOr<std::string> CheckListenAddress(const std::string& address);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_LISTEN_CHECK_H_
