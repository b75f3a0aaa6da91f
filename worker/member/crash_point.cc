#include "worker/member/crash_point.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/log/log.h"

namespace longwave {
namespace {

using PointAndCount = std::pair<std::string, uint32_t>;

// Of LONGWAVE_CRASH_AT; no point if there is none.
PointAndCount ReadWanted() {
  const char* const text = std::getenv("LONGWAVE_CRASH_AT");
  if (text == nullptr) return {};
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, ':');
  uint32_t times = 0;
  if (absl::SimpleAtoi(parts.second, &times) && times > 0) return {parts.first, times};
  Log(LogLevel::kWarning, "LONGWAVE_CRASH_AT: got ", text, ", wanted POINT:N, such as posted:3");
  return {};
}

}  // namespace

void PassCrashPoint(std::string_view point) {
  static const PointAndCount wanted = ReadWanted();
  if (wanted.first != point) return;
  static std::atomic<uint32_t> passed = 0;
  if (++passed != wanted.second) return;
  Log(LogLevel::kWarning, "crashes at ", wanted.first, ", as LONGWAVE_CRASH_AT says");
  std::raise(SIGKILL);
}

}  // namespace longwave
