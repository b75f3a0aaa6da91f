#include "worker/member/crash_point.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/log/log.h"

namespace longwave {
namespace {

absl::string_view NameOf(CrashPoint point) {
  switch (point) {
    case CrashPoint::kEncoding:
      return "encoding";
    case CrashPoint::kEncoded:
      return "encoded";
    case CrashPoint::kCheckpointed:
      return "checkpointed";
    case CrashPoint::kPosted:
      return "posted";
    case CrashPoint::kApplied:
      return "applied";
  }
  return "";
}

struct Wanted {
  absl::string_view point;
  uint32_t times = 0;
};

std::optional<Wanted> ReadWanted() {
  const char* const text = std::getenv("LONGWAVE_CRASH_AT");
  if (text == nullptr) return std::nullopt;
  Wanted wanted;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, ':');
  wanted.point = parts.first;
  if (absl::SimpleAtoi(parts.second, &wanted.times) && wanted.times > 0) return wanted;
  Log(LogLevel::kWarning,
      absl::StrCat("LONGWAVE_CRASH_AT: got ", text, ", wanted POINT:N, such as posted:3"));
  return std::nullopt;
}

}  // namespace

void PassCrashPoint(CrashPoint point) {
  static const std::optional<Wanted> wanted = ReadWanted();
  if (!wanted.has_value() || wanted->point != NameOf(point)) return;
  static std::atomic<uint32_t> passed = 0;
  if (++passed != wanted->times) return;
  Log(LogLevel::kWarning,
      absl::StrCat("crashes at ", wanted->point, ", as LONGWAVE_CRASH_AT says"));
  std::raise(SIGKILL);
}

}  // namespace longwave
