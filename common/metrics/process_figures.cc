#include "common/metrics/process_figures.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace longwave {
namespace {

std::string ReadAll(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The machine's start in Unix time: the line "btime N" of /proc/stat.
std::optional<double> BootTime() {
  std::ifstream in("/proc/stat");
  std::string line;
  while (std::getline(in, line)) {
    double seconds = 0;
    if (line.starts_with("btime ") && std::istringstream(line.substr(6)) >> seconds) return seconds;
  }
  return std::nullopt;
}

std::optional<double> OpenFds() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  double count = -1;  // without the descriptor of this folder
  while (const dirent* const entry = readdir(folder)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(folder);
  return count;
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

std::optional<ProcessStat> ParseProcessStat(std::string_view line) {
  // pid (name) state …: the name may contain any character, brackets and spaces too.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  std::istringstream rest{std::string(line.substr(name_end + 1))};
  const std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
  // proc(5) counts fields from 1; `fields` begins with the third.
  constexpr size_t kFirst = 3, kStartTime = 22, kVirtual = 23, kResident = 24;
  if (fields.size() <= kResident - kFirst) return std::nullopt;
  const auto number = [&](size_t field, double* value) {
    std::istringstream text(fields[field - kFirst]);
    return static_cast<bool>(text >> *value);
  };
  ProcessStat stat;
  if (!number(kStartTime, &stat.start_ticks) || !number(kVirtual, &stat.virtual_bytes) ||
      !number(kResident, &stat.resident_pages)) {
    return std::nullopt;
  }
  return stat;
}

ProcessFigures ReadProcessFigures() {
  ProcessFigures figures;
  if (const std::optional<ProcessStat> stat = ParseProcessStat(ReadAll("/proc/self/stat"))) {
    figures.virtual_memory_bytes = stat->virtual_bytes;
    figures.resident_memory_bytes =
        stat->resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
    static const std::optional<double> boot_time = BootTime();
    if (boot_time.has_value()) {
      figures.start_time_seconds =
          *boot_time + stat->start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    }
  }
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    figures.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  figures.open_fds = OpenFds();
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) figures.max_fds = static_cast<double>(limit.rlim_cur);
  return figures;
}

}  // namespace longwave
