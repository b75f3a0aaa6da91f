#ifndef LONGWAVE_COMMON_SECURITY_SECURITY_MODE_H_
#define LONGWAVE_COMMON_SECURITY_SECURITY_MODE_H_

#include <string>
#include <string_view>
#include <vector>

namespace longwave {

// Whether the host of "host:port", "tcp://host:port" or "host" is this machine to itself alone:
// 127.x.y.z, [::1], localhost. An empty address is nothing to be reached by.
bool IsLoopback(std::string_view address);

// security.mode (auto, on, off) for a process with these addresses: those that it listens on,
// announces and connects to.
bool IsSecured(std::string_view mode, const std::vector<std::string>& addresses);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_SECURITY_SECURITY_MODE_H_
