#include "common/link/endpoint.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/descriptor.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

// address: with port 0.
bool IsOfThisMachine(const addrinfo& address) {
  const Descriptor fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd.get() >= 0 && bind(fd.get(), address.ai_addr, address.ai_addrlen) == 0;
}

}  // namespace

absl::Status CheckEndpoint(const std::string& endpoint, EndpointUse use) {
  const auto refuse = [&](const char* what) {
    return InvalidArgument(
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
    return InvalidArgument(
        "endpoint \"", endpoint,
        "\": means every address of a machine; wanted one that others connect to");
  }
  return endpoint;
}

std::string EndpointToBind(const std::string& endpoint) {
  absl::string_view rest = endpoint;
  absl::ConsumePrefix(&rest, "tcp://");
  const size_t colon = rest.rfind(':');
  const std::string host(rest.substr(0, colon));
  if (IsWildcard(endpoint) || host.front() == '[') return endpoint;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return endpoint;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  // A name may have addresses of both families on a machine that has one.
  const addrinfo* chosen = found;
  while (chosen->ai_next != nullptr && !IsOfThisMachine(*chosen)) chosen = chosen->ai_next;
  char numeric[NI_MAXHOST];
  if (getnameinfo(chosen->ai_addr, chosen->ai_addrlen, numeric, sizeof numeric, nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return endpoint;
  const bool is_ipv6 = chosen->ai_family == AF_INET6;
  return absl::StrCat("tcp://", is_ipv6 ? "[" : "", numeric, is_ipv6 ? "]" : "",
                      rest.substr(colon));
}

bool IsWildcard(const std::string& address) {
  absl::string_view host = address;
  absl::ConsumePrefix(&host, "tcp://");
  host = host.substr(0, host.rfind(':'));
  return host == "0.0.0.0" || host == "[::]" || host == "*";
}

}  // namespace longwave
