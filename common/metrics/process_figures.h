#ifndef LONGWAVE_COMMON_METRICS_PROCESS_FIGURES_H_
#define LONGWAVE_COMMON_METRICS_PROCESS_FIGURES_H_

#include <optional>
#include <string_view>

namespace longwave {

// The system's figures of this process, as far as available.
struct ProcessFigures {
  std::optional<double> start_time_seconds;  // Unix time
  std::optional<double> cpu_seconds;         // user and system, all threads
  std::optional<double> resident_memory_bytes;
  std::optional<double> virtual_memory_bytes;
  std::optional<double> open_fds;
  std::optional<double> max_fds;
};

// From /proc where it exists, and from POSIX.
ProcessFigures ReadProcessFigures();

// The fields of /proc/PID/stat that ProcessFigures need. ParseProcessStat returns nullopt on a
// malformed line.
struct ProcessStat {
  double start_ticks = 0;  // after the machine's start
  double virtual_bytes = 0;
  double resident_pages = 0;
};
std::optional<ProcessStat> ParseProcessStat(std::string_view line);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_METRICS_PROCESS_FIGURES_H_
