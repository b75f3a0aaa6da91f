#ifndef LONGWAVE_COMMON_LINK_ENDPOINT_H_
#define LONGWAVE_COMMON_LINK_ENDPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

enum class EndpointUse { kConnect, kBind };

// OK for "tcp://host:port" with a host and a port of 1 … 65535; to bind, the port may also be 0 or
// *. InvalidArgument: a sentence with what was got and wanted.
absl::Status CheckEndpoint(const std::string& endpoint, EndpointUse use);

// "tcp://host:port" of an address that others are to connect to, given as that or as "host:port".
// InvalidArgument: neither; or no place to connect to (port 0, "*", the wildcards 0.0.0.0 and ::).
absl::StatusOr<std::string> EndpointToConnectTo(const std::string& address);

// `endpoint` with an address in place of the name that its host may be: ZeroMQ binds no names. One
// that the system cannot look up stays, since it may be that of a network interface.
std::string EndpointToBind(const std::string& endpoint);

// Whether the host of "host:port" or "tcp://host:port" means all addresses of a machine, which is
// something to listen on and nothing to connect to.
bool IsWildcard(const std::string& address);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_ENDPOINT_H_
