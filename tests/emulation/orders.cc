#include "tests/emulation/orders.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/emulation/refuse.h"

namespace longwave::emulation {
namespace {

template <typename Order>
Order FromEnvironment(const char* variable, const char* plain, const char* other) {
  const char* value = std::getenv(variable);
  if (value == nullptr || std::strcmp(value, plain) == 0) return {};
  if (std::strcmp(value, other) == 0) return {static_cast<typename Order::Kind>(1), 0};
  uint64_t seed = 0;
  const char* end = value + std::strlen(value);
  const auto [stop, error] = std::from_chars(value, end, seed);
  if (error != std::errc() || stop != end) {
    Refuse(std::string(variable) + " is \"" + value + "\", wanted " + plain + ", " + other +
           " or a number");
  }
  return {static_cast<typename Order::Kind>(2), seed};
}

ThreadOrder& Threads() {
  static ThreadOrder order =
      FromEnvironment<ThreadOrder>("LONGWAVE_EMULATION_THREADS", "ascending", "descending");
  return order;
}

StreamOrder& Streams() {
  static StreamOrder order =
      FromEnvironment<StreamOrder>("LONGWAVE_EMULATION_STREAMS", "lazy", "eager");
  return order;
}

}  // namespace

ThreadOrder thread_order() { return Threads(); }
StreamOrder stream_order() { return Streams(); }
void Set(ThreadOrder order) { Threads() = order; }
void Set(StreamOrder order) { Streams() = order; }

}  // namespace longwave::emulation
