#ifndef LONGWAVE_COMMON_LOG_LOG_H_
#define LONGWAVE_COMMON_LOG_LOG_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"

namespace longwave {

// A process's log on standard error: one line an entry, with time, process name and level.
//   kInfo     for an operator who reads the log afterwards
//   kWarning  the process refused or lost something; the run goes on
//   kError    this process cannot do its work
enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

// The process name in log lines: "coordinator", "shard-0", "worker-2". Call before other threads
// log.
void SetLogProcess(std::string_view name);

// The level below which lines are dropped; kInfo by default.
void SetLogLevel(LogLevel level);

// Writes one line of at most kLogBytesMax: its parts in a row, each as in an error (errors.h).
// Control characters and bytes that are not UTF-8 are escaped (Printable), since parts may contain
// other processes' words. Thread-safe; errors of standard error are ignored.
inline constexpr size_t kLogBytesMax = 8192;
void LogText(LogLevel level, std::string_view text);
template <typename... Parts>
void Log(LogLevel level, const Parts&... parts) {
  LogText(level, absl::StrCat(ErrorPart(parts)...));
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LOG_LOG_H_
