#ifndef LONGWAVE_COMMON_LINK_ENDPOINT_H_
#define LONGWAVE_COMMON_LINK_ENDPOINT_H_

#include <string>

#include "absl/status/status.h"

namespace longwave {

enum class EndpointUse { kConnect, kBind };

// OK for "tcp://host:port" with a host and a port of 1 … 65535; to bind, the port may also be 0 or
// *. InvalidArgument: a sentence with what was got and wanted.
absl::Status CheckEndpoint(const std::string& endpoint, EndpointUse use);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_ENDPOINT_H_
