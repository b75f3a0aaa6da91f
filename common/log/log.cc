#include "common/log/log.h"

#include <memory>

#include "common/base/utf8.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace longwave {
namespace {

spdlog::logger& Logger() {
  // Never destroyed, since threads may log while the process ends.
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("longwave", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    made->flush_on(spdlog::level::info);
    made->set_error_handler([](const std::string&) {});
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void SetLogProcess(std::string name) {
  std::string escaped;  // '%' begins a flag of spdlog's pattern
  for (const char c : Printable(name)) escaped += c == '%' ? "%%" : std::string(1, c);
  Logger().set_pattern("%Y-%m-%d %H:%M:%S.%e " + escaped + " %l %v");
}

void SetLogLevel(LogLevel level) { Logger().set_level(SpdlogLevel(level)); }

void Log(LogLevel level, std::string_view text) {
  if (!Logger().should_log(SpdlogLevel(level))) return;
  // A byte more than is shown, so that Utf8Prefix marks a cut text.
  Logger().log(SpdlogLevel(level),
               Utf8Prefix(Printable(text.substr(0, kLogBytesMax + 1)), kLogBytesMax));
}

}  // namespace longwave
