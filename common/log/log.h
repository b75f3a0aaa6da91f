#ifndef LONGWAVE_COMMON_LOG_LOG_H_
#define LONGWAVE_COMMON_LOG_LOG_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

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

// Writes one line of at most kLogBytesMax. Control characters and bytes that are not UTF-8 are
// escaped (Printable), since `text` may contain other processes' words. Thread-safe; errors of
// standard error are ignored.
inline constexpr size_t kLogBytesMax = 8192;
void Log(LogLevel level, std::string_view text);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LOG_LOG_H_
