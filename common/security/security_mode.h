#ifndef LONGWAVE_COMMON_SECURITY_SECURITY_MODE_H_
#define LONGWAVE_COMMON_SECURITY_SECURITY_MODE_H_

#include <string>
#include <string_view>
#include <vector>

namespace longwave {

// Whether the host of "host:port", "tcp://host:port" or "host" is loopback: 127.x.y.z, [::1],
// localhost. An empty address counts as loopback.
bool IsLoopback(std::string_view address);

// The effect of security.mode (auto, on, off) for a process that listens on, announces and connects
// to these addresses.
bool IsSecured(std::string_view mode, const std::vector<std::string>& addresses);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_SECURITY_MODE_H_
