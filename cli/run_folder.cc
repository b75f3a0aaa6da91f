#include "cli/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cli/json_text.h"
#include "cli/summary.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/store/posix_file_system.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

// For runs without a name that begin in the same second.
constexpr int kSuffixMax = 1000;

absl::Status FileError(absl::string_view what, const std::string& path, int error) {
  return Unavailable("cannot ", what, " ", path, ": ", std::generic_category().message(error));
}

absl::Status InUse(const std::string& path) {
  return AlreadyExists("the run folder ", path,
                       " has something in it; wanted a new name (--name) or an empty folder");
}

// Makes the run folder, or claims an empty one. Creating config.yaml decides between two runs that
// find the folder empty.
absl::Status Claim(const std::string& path) {
  std::error_code error;
  if (mkdir(path.c_str(), 0777) != 0) {
    if (errno != EEXIST) return FileError("make the folder", path, errno);
    if (!fs::is_directory(path, error) || !fs::is_empty(path, error)) {
      return error ? FileError("read the folder", path, error.value()) : InUse(path);
    }
  }
  const std::string marker = path + "/config.yaml";
  const int fd = open(marker.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return errno == EEXIST ? InUse(path) : FileError("write", marker, errno);
  close(fd);
  const std::string logs = path + "/logs";
  if (mkdir(logs.c_str(), 0777) != 0) return FileError("make the folder", logs, errno);
  return absl::OkStatus();
}

}  // namespace

std::string RunName(const RunConfig& config, absl::Time now) {
  if (!config.run.name.empty()) return config.run.name;
  return absl::StrCat(config.run.preset, "-",
                      absl::FormatTime("%Y%m%d-%H%M%S", now, absl::LocalTimeZone()));
}

absl::StatusOr<RunFolder> RunFolder::Create(const std::string& runs_dir, const RunConfig& config,
                                            absl::Time now) {
  std::error_code error;
  fs::create_directories(runs_dir, error);
  if (error) return FileError("make the folder", runs_dir, error.value());
  const std::string path = absl::StrCat(runs_dir, "/", RunName(config, now));
  absl::Status taken = Claim(path);
  // Only a generated name may change.
  for (int i = 2; absl::IsAlreadyExists(taken) && config.run.name.empty() && i <= kSuffixMax; ++i) {
    const std::string next = absl::StrCat(path, "-", i);
    taken = Claim(next);
    if (taken.ok()) return Lock(RunFolder(next));
  }
  if (!taken.ok()) return taken;
  return Lock(RunFolder(path));
}

absl::StatusOr<RunFolder> RunFolder::Lock(RunFolder folder) {
  LONGWAVE_ASSIGN_OR_RETURN(folder.lock_, MakePosixFileSystem()->Lock(folder.path() + "/lock"));
  return folder;
}

absl::StatusOr<RunFolder> RunFolder::Open(const std::string& path) {
  RunFolder folder(path);
  std::error_code error;
  for (const std::string& wanted : {folder.config_file(), folder.state_folder("coordinator")}) {
    LONGWAVE_RETURN_IF_ERROR(CheckReadable(wanted));
    if (fs::exists(wanted, error)) continue;
    return NotFound("there is no ", wanted, ", wanted the folder of a run of ",
                    "`longwave up` that keeps state");
  }
  LONGWAVE_RETURN_IF_ERROR(CheckReadable(folder.summary_file()));
  // The `up` that holds the lock may be about to write the summary.
  LONGWAVE_ASSIGN_OR_RETURN(folder, Lock(std::move(folder)));
  std::ifstream file(folder.summary_file());
  const nlohmann::json summary = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const std::string outcome = TextAt(summary, "outcome");
  if (outcome != Name(RunOutcome::kFinished) && outcome != Name(RunOutcome::kStopped))
    return folder;
  return FailedPrecondition("the run in ", path, " has ",
                            outcome == Name(RunOutcome::kFinished) ? "finished" : "been stopped",
                            ", wanted one that was parked or has failed");
}

absl::Status CheckReadable(const std::string& path) {
  const bool is_readable = faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0;
  if (is_readable || errno == ENOENT || errno == ENOTDIR) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
}

std::string FindRunFolder(const std::string& run, const std::string& runs_dir) {
  const auto is_there = [](const std::string& path) {
    std::error_code error;
    return fs::is_directory(path, error) || error == std::errc::permission_denied;
  };
  const std::string named = absl::StrCat(runs_dir, "/", run);
  fs::path folder = is_there(run) || !is_there(named) ? run : named;
  if (!folder.has_filename()) folder = folder.parent_path();  // the path ended with /
  return folder.string();
}

std::string RunFolder::name() const {
  std::error_code ignored;
  const fs::path path = fs::absolute(path_, ignored).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string RunFolder::log_file(const std::string& process) const {
  return absl::StrCat(path_, "/logs/", process, ".log");
}

std::string RunFolder::state_folder(const std::string& process) const {
  return absl::StrCat(path_, "/state/", process);
}

}  // namespace longwave
