#include "common/log/log_time.h"

#include <string>

namespace longwave {

std::optional<absl::Time> LogTimeOf(std::string_view line) {
  static constexpr std::string_view kForm = "dddd-dd-dd dd:dd:dd.ddd";
  if (line.size() <= kForm.size()) return std::nullopt;
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool is_digit = line[i] >= '0' && line[i] <= '9';
    if (kForm[i] == 'd' ? !is_digit : line[i] != kForm[i]) return std::nullopt;
  }
  absl::Time time;
  const bool is_time = absl::ParseTime(
      "%Y-%m-%d %H:%M:%E*S", std::string(line.substr(0, kForm.size())),
      line[kForm.size()] == 'Z' ? absl::UTCTimeZone() : absl::LocalTimeZone(), &time, nullptr);
  return is_time ? std::optional(time) : std::nullopt;
}

}  // namespace longwave
