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
#include "cli/interrupts.h"
#include "cli/run_folder.h"
#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

constexpr int kFollowIntervalMs = 250;

// The prefix of common/log's lines, "2026-11-23 10:02:11.482"; empty for other lines.
std::string_view TimeOf(std::string_view line) {
  static constexpr std::string_view kForm = "dddd-dd-dd dd:dd:dd.ddd ";
  if (line.size() < kForm.size()) return "";
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool is_digit = line[i] >= '0' && line[i] <= '9';
    if (kForm[i] == 'd' ? !is_digit : line[i] != kForm[i]) return "";
  }
  return line.substr(0, kForm.size() - 1);
}

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
  if (error) {
    return NotFound(folder, ": ", error.message(), ", wanted the folder of a run of `longwave up`");
  }
  std::ranges::sort(names);
  for (const std::string& process : options.processes) {
    if (std::ranges::find(names, process) != names.end()) continue;
    return NotFound("got ", Quotable(process), ", wanted one of ", absl::StrJoin(names, ", "));
  }
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
  std::vector<std::pair<std::string_view, std::string>> lines;  // with the time that orders it
  for (const auto& [process, own] : logs) {
    std::string_view time;
    for (const std::string& line : own) {
      const std::string_view of_line = TimeOf(line);
      if (!of_line.empty()) time = of_line;
      lines.emplace_back(time, of_line.empty() ? absl::StrCat(process, ": ", line) : line);
    }
  }
  std::ranges::stable_sort(lines, {}, [](const auto& line) { return line.first; });
  std::vector<std::string> merged;
  merged.reserve(lines.size());
  for (auto& [time, line] : lines) merged.push_back(std::move(line));
  return merged;
}

}  // namespace longwave
