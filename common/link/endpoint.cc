#include "common/link/endpoint.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace longwave {

absl::Status CheckEndpoint(const std::string& endpoint, EndpointUse use) {
  const auto refuse = [&](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("endpoint \"", endpoint, "\": ", what, "; wanted tcp://host:port"));
  };
  absl::string_view rest = endpoint;
  if (!absl::ConsumePrefix(&rest, "tcp://")) return refuse("does not begin with tcp://");
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos) return refuse("has no port");
  if (colon == 0) return refuse("has no host");
  const absl::string_view port = rest.substr(colon + 1);
  if (use == EndpointUse::kBind && port == "*") return absl::OkStatus();
  uint32_t number = 0;
  const bool digits = port.find_first_not_of("0123456789") == absl::string_view::npos;
  if (!digits || !absl::SimpleAtoi(port, &number) || number > 65535) {
    return refuse("has a port that is not one of 1 … 65535");
  }
  if (number == 0 && use == EndpointUse::kConnect)
    return refuse("names port 0, where nobody listens");
  return absl::OkStatus();
}

absl::StatusOr<std::string> EndpointToConnectTo(const std::string& address) {
  const bool has_scheme = absl::StrContains(address, "://");
  std::string endpoint = has_scheme ? address : absl::StrCat("tcp://", address);
  LONGWAVE_RETURN_IF_ERROR(CheckEndpoint(endpoint, EndpointUse::kConnect));
  if (IsWildcard(address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("endpoint \"", endpoint,
                     "\": means every address of a machine; wanted one that others connect to"));
  }
  return endpoint;
}

bool IsWildcard(const std::string& address) {
  absl::string_view host = address;
  absl::ConsumePrefix(&host, "tcp://");
  host = host.substr(0, host.rfind(':'));
  return host == "0.0.0.0" || host == "[::]" || host == "*";
}

}  // namespace longwave
