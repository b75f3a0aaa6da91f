#ifndef LONGWAVE_COMMON_LINK_ENDPOINT_H_
#define LONGWAVE_COMMON_LINK_ENDPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

enum class EndpointUse { kConnect, kBind };

// OK for "tcp://host:port" with a host and a port of 1 … 65535; to bind, the port may also be 0 or
// *. Errors: InvalidArgument, with what was got and wanted.
absl::Status CheckEndpoint(const std::string& endpoint, EndpointUse use);

// "tcp://host:port" of an address, given so or as "host:port", that others connect to. Errors:
// InvalidArgument (another form, port 0, "*", the wildcards 0.0.0.0 and ::).
absl::StatusOr<std::string> EndpointToConnectTo(const std::string& address);

// `endpoint` with an address in place of a host name, since ZeroMQ binds no names. A name that the
// system cannot resolve stays: the name of a network interface is one.
std::string EndpointToBind(const std::string& endpoint);

// Whether the host of "host:port" or "tcp://host:port" means all addresses of a machine: good for
// listening, not for connecting.
bool IsWildcard(const std::string& address);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_ENDPOINT_H_
