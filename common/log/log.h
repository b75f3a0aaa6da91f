#ifndef LONGWAVE_COMMON_LOG_LOG_H_
#define LONGWAVE_COMMON_LOG_LOG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace longwave {

// A process's diary, on standard error: one line each, with the time, the process's name and the
// level.
//   kInfo     what an operator wants to read afterwards
//   kWarning  something was refused or lost, and the run goes on
//   kError    this process cannot do what it was started for
enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

// The name that this process's lines carry: "coordinator", "shard-0", "worker-2". Call it before
// other threads log.
void SetLogProcess(std::string name);

// Lines below this level are dropped; kInfo unless told.
void SetLogLevel(LogLevel level);

// Writes one line, whatever stands in `text`: control characters and bytes that are not UTF-8 are
// escaped (Printable), since other processes' words may be among it, and it is cut at kLogBytesMax.
// Thread-safe; a failing standard error is ignored.
inline constexpr size_t kLogBytesMax = 8192;
void Log(LogLevel level, std::string_view text);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LOG_LOG_H_
