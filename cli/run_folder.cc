#include "cli/run_folder.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

absl::Status FileError(absl::string_view what, const std::string& path, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " ", path, ": ", std::generic_category().message(error)));
}

}  // namespace

std::string RunName(const RunConfig& config, absl::Time now) {
  if (!config.run.name.empty()) return config.run.name;
  return absl::StrCat(config.run.preset, "-",
                      absl::FormatTime("%Y%m%d-%H%M%S", now, absl::LocalTimeZone()));
}

absl::StatusOr<RunFolder> RunFolder::Create(const std::string& runs_dir, const RunConfig& config,
                                            absl::Time now) {
  const std::string name = RunName(config, now);
  const std::string path = absl::StrCat(runs_dir, "/", name);
  std::error_code error;
  if (fs::exists(path, error)) {
    if (!fs::is_directory(path, error) || !fs::is_empty(path, error)) {
      return absl::AlreadyExistsError(
          absl::StrCat("the run folder ", path,
                       " has something in it; wanted a new name (--name) or an empty "
                       "folder"));
    }
  }
  fs::create_directories(path + "/logs", error);
  if (error) return FileError("make the folder", path + "/logs", error.value());
  return RunFolder(path);
}

std::string RunFolder::log_file(const std::string& process) const {
  return absl::StrCat(path_, "/logs/", process, ".log");
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return FileError("write", temporary, errno);
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  const int write_error = errno;
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) return FileError("write", temporary, written ? errno : write_error);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return FileError("write", path, errno);
  return absl::OkStatus();
}

}  // namespace longwave
