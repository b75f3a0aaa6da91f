// Any bytes to the metrics port: a request or none, whose parts are of the text itself.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/metrics/http_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto request = longwave::ParseHttpRequest(text);
  if (!request.has_value()) return 0;
  for (const std::string_view part : {request->method, request->path}) {
    if (part.data() < text.data() || part.data() + part.size() > text.data() + text.size())
      std::abort();
    if (part.find_first_of(" \r") != std::string_view::npos) std::abort();
  }
  return 0;
}
