#include "common/config/key_types.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "common/base/errors.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

constexpr size_t kTextBytesMax = 4096;
// A double holds every whole number up to here.
constexpr double kExactMax = 1LL << 53;

bool IsText(std::string_view text) {
  return text.size() <= kTextBytesMax && FindInvalidUtf8(text) == std::string_view::npos &&
         FindControlCharacter(text, "") == std::string_view::npos;
}

template <typename Predicate>
bool AllOf(std::string_view text, Predicate predicate) {
  return std::ranges::all_of(text, predicate);
}

}  // namespace

bool ParseWhole(std::string_view text, uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error == std::errc() && end == text.data() + text.size()) return true;
  double number = 0;
  if (!ParseNumber(text, &number) || number < 0 || number > kExactMax) return false;
  *value = static_cast<uint64_t>(number);
  return static_cast<double>(*value) == number;
}

bool ParseNumber(std::string_view text, double* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(*value);
}

std::string FormatNumber(double value) {
  char digits[32];
  const auto result = std::to_chars(digits, digits + sizeof(digits), value);
  return std::string(digits, result.ptr);
}

bool IsFolderName(std::string_view text) {
  return text.size() <= 200 && (text.empty() || text[0] != '.') && AllOf(text, [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

bool IsPath(std::string_view text) { return !text.empty() && IsText(text); }

bool IsPathOrNone(std::string_view text) { return IsText(text); }

bool IsHost(std::string_view text) {
  if (text.empty() || text.size() > 253) return false;
  if (text.front() == '[') {
    if (text.size() < 4 || text.back() != ']') return false;
    return AllOf(text.substr(1, text.size() - 2),
                 [](unsigned char c) { return absl::ascii_isxdigit(c) || c == ':' || c == '.'; });
  }
  return AllOf(text, [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  });
}

bool IsHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !IsHost(text.substr(0, colon))) return false;
  const std::string_view digits = text.substr(colon + 1);
  uint64_t port = 0;
  return AllOf(digits, absl::ascii_isdigit) && ParseWhole(digits, &port) && port <= 65535;
}

bool IsHostPortOrNone(std::string_view text) { return text.empty() || IsHostPort(text); }

absl::Status CheckCoordinatorAddress(std::string_view text) {
  if (IsHostPort(text)) return absl::OkStatus();
  return InvalidArgument("got ", Quotable(text), ", wanted host:port of the coordinator");
}

}  // namespace longwave
