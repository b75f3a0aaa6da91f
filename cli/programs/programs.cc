#include "cli/programs/programs.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/descriptor.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

constexpr size_t kOutputBytesMax = 64 << 10;
constexpr char kWorker[] = "longwave-worker";

bool IsProgram(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::vector<char*> PointersTo(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<std::string> OwnFolder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Internal("cannot find this program's own folder by /proc/self/exe");
  return self.parent_path().string();
}

std::optional<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (IsProgram(name)) return name;
    return std::nullopt;
  }
  const char* path = std::getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    std::string candidate = absl::StrCat(folder.empty() ? "." : folder, "/", name);
    if (IsProgram(candidate)) return candidate;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> WorkerFolder() {
  LONGWAVE_ASSIGN_OR_RETURN(std::string own, OwnFolder());
  if (IsProgram(absl::StrCat(own, "/", kWorker))) return own;
  const std::optional<std::string> found = FindProgram(kWorker);
  if (found) return std::filesystem::path(*found).parent_path().string();
  return NotFound(
      "got no longwave-worker beside this program or in PATH, wanted that of the worker's archive, "
      "of its image or of `make programs`; the Python package brings none");
}

absl::Status Become(const std::vector<std::string>& command) {
  execv(command.front().c_str(), PointersTo(command).data());
  return Unavailable("cannot run ", command.front(), ": ", std::strerror(errno));
}

absl::StatusOr<Ended> RunToEnd(const std::vector<std::string>& command, absl::Duration patience) {
  const std::vector<char*> argv = PointersTo(command);
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const Descriptor read_end(pipe_fds[0]);
  Descriptor write_end(pipe_fds[1]);
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "fork");
  if (child == 0) {
    dup2(write_end.get(), STDOUT_FILENO);
    dup2(write_end.get(), STDERR_FILENO);
    execv(argv[0], argv.data());
    const char* const why = std::strerror(errno);
    [[maybe_unused]] const ssize_t told = write(STDERR_FILENO, why, std::strlen(why));
    _exit(127);
  }
  write_end.Close();
  Ended ended;
  const absl::Time deadline = MonotonicNow() + patience;
  char buffer[4096];
  bool in_time = true;
  while (true) {
    pollfd readable{.fd = read_end.get(), .events = POLLIN, .revents = 0};
    const int64_t left_ms = absl::ToInt64Milliseconds(deadline - MonotonicNow());
    in_time = left_ms > 0;
    if (!in_time) break;
    if (poll(&readable, 1, static_cast<int>(left_ms)) < 0 && errno == EINTR) continue;
    if (readable.revents == 0) continue;
    const ssize_t count = read(read_end.get(), buffer, sizeof buffer);
    if (count <= 0) break;
    if (ended.output.size() < kOutputBytesMax) ended.output.append(buffer, count);
  }
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    return Unavailable(command[0], " has not answered in ", absl::FormatDuration(patience));
  }
  ended.well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return ended;
}

}  // namespace longwave
