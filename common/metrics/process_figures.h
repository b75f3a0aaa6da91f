#ifndef LONGWAVE_COMMON_METRICS_PROCESS_FIGURES_H_
#define LONGWAVE_COMMON_METRICS_PROCESS_FIGURES_H_

#include <optional>
#include <string_view>

namespace longwave {

// What the system knows of this process, as far as it tells.
struct ProcessFigures {
  std::optional<double> start_time_seconds;  // Unix time
  std::optional<double> cpu_seconds;         // user and system, all threads
  std::optional<double> resident_memory_bytes;
  std::optional<double> virtual_memory_bytes;
  std::optional<double> open_fds;
  std::optional<double> max_fds;
};

// From /proc where there is one, and from what POSIX has.
ProcessFigures ReadProcessFigures();

// Of the fields of /proc/PID/stat, those that ProcessFigures are made of. Nothing: the line is not
// one.
struct ProcessStat {
  double start_ticks = 0;  // after the machine's start
  double virtual_bytes = 0;
  double resident_pages = 0;
};
std::optional<ProcessStat> ParseProcessStat(std::string_view line);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_METRICS_PROCESS_FIGURES_H_
