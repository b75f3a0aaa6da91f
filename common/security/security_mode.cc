#include "common/security/security_mode.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace longwave {

bool IsLoopback(std::string_view address) {
  absl::string_view host(address.data(), address.size());
  absl::ConsumePrefix(&host, "tcp://");
  if (host.empty()) return true;
  if (host.front() == '[') {
    host = host.substr(1, host.find(']') - 1);
    return host == "::1";
  }
  host = host.substr(0, host.find(':'));
  if (host == "localhost") return true;
  // A host name may begin with 127. too, and be anywhere.
  return absl::StartsWith(host, "127.") &&
         host.find_first_not_of("0123456789.") == absl::string_view::npos;
}

bool IsSecured(std::string_view mode, const std::vector<std::string>& addresses) {
  if (mode == "on") return true;
  if (mode == "off") return false;
  return !std::ranges::all_of(addresses,
                              [](const std::string& address) { return IsLoopback(address); });
}

}  // namespace longwave
