#ifndef LONGWAVE_COMMON_RPC_LISTEN_CHECK_H_
#define LONGWAVE_COMMON_RPC_LISTEN_CHECK_H_

#include <string>

#include "absl/status/statusor.h"

namespace longwave {

// The host of "host:port" ("[::1]:80" gives "[::1]"), once a socket could listen there. gRPC only
// says that it cannot; this says why, in a sentence: Unavailable (the port is in use),
// PermissionDenied, InvalidArgument (not an address, or none of this machine).
absl::StatusOr<std::string> CheckListenAddress(const std::string& address);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_LISTEN_CHECK_H_
