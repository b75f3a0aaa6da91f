#include "cli/logs.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "cli/interrupts.h"
#include "cli/run_folder.h"
#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/log/log_time.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

constexpr int kFollowIntervalMs = 250;

// Lines of a process that seem to be so much earlier than the one before were written after its
// clock was set back; less is two threads' doing.
constexpr absl::Duration kClockStep = absl::Seconds(1);

// A process's log, read incrementally.
struct LogFile {
  std::string process;
  std::string path;
  std::streamoff read = 0;

  // The complete new lines.
  std::vector<std::string> NewLines() {
    std::ifstream file(path, std::ios::binary);
    file.seekg(read);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
    if (text.empty()) return {};
    read += static_cast<std::streamoff>(text.size());
    text.pop_back();
    return absl::StrSplit(text, '\n');
  }
};

absl::StatusOr<std::vector<LogFile>> FilesOf(const LogsOptions& options) {
  const std::string folder = FindRunFolder(options.run, options.runs_dir) + "/logs";
  std::vector<LogFile> files;
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".log") continue;
    names.push_back(entry.path().stem().string());
    if (options.processes.empty() ||
        std::ranges::find(options.processes, names.back()) != options.processes.end())
      files.push_back({names.back(), entry.path().string()});
  }
  LONGWAVE_RETURN_IF_ERROR(CheckReadable(folder));
  if (error) {
    return NotFound(folder, ": ", error.message(), ", wanted the folder of a run of `longwave up`");
  }
  std::ranges::sort(names);
  for (const std::string& process : options.processes) {
    if (std::ranges::find(names, process) != names.end()) continue;
    return NotFound("got ", Quotable(process), ", wanted one of ", absl::StrJoin(names, ", "));
  }
  for (const LogFile& file : files) LONGWAVE_RETURN_IF_ERROR(CheckReadable(file.path));
  std::ranges::sort(files, {}, &LogFile::process);
  return files;
}

}  // namespace

absl::Status PrintLogs(const LogsOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<LogFile> files, FilesOf(options));
  std::optional<Interrupts> interrupts;
  if (options.follow) {
    LONGWAVE_ASSIGN_OR_RETURN(Interrupts blocked, Interrupts::Block());
    interrupts.emplace(std::move(blocked));
  }
  pollfd interrupted = {interrupts.has_value() ? interrupts->fd() : -1, POLLIN, 0};
  do {
    std::vector<std::pair<std::string, std::vector<std::string>>> logs;
    logs.reserve(files.size());
    for (LogFile& file : files) logs.emplace_back(file.process, file.NewLines());
    for (const std::string& line : MergeLogs(logs)) PrintLine(stdout, line);
  } while (options.follow && std::ferror(stdout) == 0 &&
           poll(&interrupted, 1, kFollowIntervalMs) <= 0);
  return absl::OkStatus();
}

std::vector<std::string> MergeLogs(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& logs) {
  // With what orders them: how often the clock was set back before, and the time since then.
  std::vector<std::pair<std::pair<int, absl::Time>, std::string>> lines;
  for (const auto& [process, own] : logs) {
    int steps_back = 0;
    absl::Time latest = absl::InfinitePast();
    for (const std::string& line : own) {
      const std::optional<absl::Time> time = LogTimeOf(line);
      const bool is_set_back = time.has_value() && *time < latest - kClockStep;
      if (is_set_back) ++steps_back;
      if (time.has_value()) latest = is_set_back ? *time : std::max(latest, *time);
      lines.push_back({{steps_back, latest}, time ? line : absl::StrCat(process, ": ", line)});
    }
  }
  std::ranges::stable_sort(lines, {}, [](const auto& line) { return line.first; });
  std::vector<std::string> merged;
  merged.reserve(lines.size());
  for (auto& [order, line] : lines) merged.push_back(std::move(line));
  return merged;
}

}  // namespace longwave
