#include "common/metrics/http_request.h"

namespace longwave {

std::optional<HttpRequest> ParseHttpRequest(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\r'));
  const size_t method_end = line.find(' ');
  if (method_end == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(method_end + 1);
  const size_t path_end = rest.find(' ');
  if (path_end == std::string_view::npos) return std::nullopt;
  if (!rest.substr(path_end).starts_with(" HTTP/1")) return std::nullopt;
  const std::string_view path = rest.substr(0, path_end);
  return HttpRequest{line.substr(0, method_end), path.substr(0, path.find('?'))};
}

}  // namespace longwave
