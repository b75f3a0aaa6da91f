#ifndef LONGWAVE_COMMON_LOG_LOG_TIME_H_
#define LONGWAVE_COMMON_LOG_LOG_TIME_H_

#include <optional>
#include <string_view>

#include "absl/time/time.h"

namespace longwave {

// The time before the lines of a process's log, "2026-11-23 10:02:11.482Z"; of earlier versions in
// the local zone, without Z. nullopt for other lines.
std::optional<absl::Time> LogTimeOf(std::string_view line);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LOG_LOG_TIME_H_
