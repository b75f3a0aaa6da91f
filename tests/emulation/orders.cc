#include "tests/emulation/orders.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/emulation/refuse.h"

namespace longwave::emulation {
namespace {

constexpr char kVariable[] = "LONGWAVE_EMULATION_ORDERS";

struct Orders {
  ThreadOrder threads;
  StreamOrder streams;
};

// Parses an order's kind by name, or a number.
template <typename Order>
bool Parse(std::string_view text, std::string_view first, std::string_view second, Order& order) {
  using Kind = typename Order::Kind;
  uint64_t seed = 0;
  if (text == first || text == second) {
    order = {text == first ? Kind{0} : Kind{1}};
    return true;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  order = {Kind{2}, seed};
  return error == std::errc() && end == text.data() + text.size();
}

Orders FromEnvironment() {
  Orders orders;
  const char* const value = std::getenv(kVariable);
  if (value == nullptr) return orders;
  const std::string_view text = value;
  const size_t comma = text.find(',');
  if (comma == text.npos ||
      !Parse(text.substr(0, comma), "ascending", "descending", orders.threads) ||
      !Parse(text.substr(comma + 1), "lazy", "eager", orders.streams)) {
    Refuse(std::string(kVariable) + " is \"" + value +
           "\", wanted ascending, descending or a number, a comma, and lazy, eager or a number");
  }
  return orders;
}

Orders& Chosen() {
  static Orders orders = FromEnvironment();
  return orders;
}

}  // namespace

ThreadOrder thread_order() { return Chosen().threads; }
StreamOrder stream_order() { return Chosen().streams; }
void Set(ThreadOrder order) { Chosen().threads = order; }
void Set(StreamOrder order) { Chosen().streams = order; }

}  // namespace longwave::emulation
