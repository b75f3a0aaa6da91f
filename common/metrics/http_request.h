#ifndef LONGWAVE_COMMON_METRICS_HTTP_REQUEST_H_
#define LONGWAVE_COMMON_METRICS_HTTP_REQUEST_H_

#include <optional>
#include <string_view>

namespace longwave {

// A request's first line.
struct HttpRequest {
  std::string_view method;
  std::string_view path;  // without the query
};

// text: untrusted. nullopt if it does not begin as an HTTP/1 request.
std::optional<HttpRequest> ParseHttpRequest(std::string_view text);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_METRICS_HTTP_REQUEST_H_
