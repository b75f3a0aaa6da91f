#include "common/log/log.h"

#include <memory>

#include "absl/strings/str_replace.h"
#include "common/base/utf8.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace longwave {
namespace {

// The time is UTC and says so: logs of several machines, and of one whose zone changes, go
// together.
void SetPattern(spdlog::logger& logger, const std::string& rest) {
  logger.set_pattern("%Y-%m-%d %H:%M:%S.%eZ " + rest, spdlog::pattern_time_type::utc);
}

spdlog::logger& Logger() {
  // Never destroyed, since threads may log while the process ends.
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("longwave", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    SetPattern(*made, "%l %v");
    made->flush_on(spdlog::level::info);
    made->set_error_handler([](const std::string&) {});
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  return kLevels[static_cast<size_t>(level)];
}

}  // namespace

void SetLogProcess(std::string_view name) {
  // '%' begins a flag of spdlog's pattern.
  const std::string escaped = absl::StrReplaceAll(Printable(name), {{"%", "%%"}});
  SetPattern(Logger(), escaped + " %l %v");
}

void SetLogLevel(LogLevel level) { Logger().set_level(SpdlogLevel(level)); }

void LogText(LogLevel level, std::string_view text) {
  if (!Logger().should_log(SpdlogLevel(level))) return;
  // A byte more than is shown, so that Utf8Prefix marks a cut text.
  Logger().log(SpdlogLevel(level),
               Utf8Prefix(Printable(text.substr(0, kLogBytesMax + 1)), kLogBytesMax));
}

}  // namespace longwave
