#include "cli/doctor/measure_machine.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

// LibTorch with CUDA is gigabytes, from a disk that may be slow.
constexpr absl::Duration kWorkerPatience = absl::Seconds(120);
constexpr size_t kOutputBytesMax = 64 << 10;
constexpr size_t kDiskBytes = 32 << 20;
constexpr size_t kBlockBytes = 1 << 20;

struct Ended {
  bool well = false;
  std::string output;  // standard output and error
};

// Runs a program to its end.
absl::StatusOr<Ended> RunToEnd(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "fork");
  if (child == 0) {
    dup2(pipe_fds[1], STDOUT_FILENO);
    dup2(pipe_fds[1], STDERR_FILENO);
    execv(argv[0], argv.data());
    const char* const why = std::strerror(errno);
    [[maybe_unused]] const ssize_t told = write(STDERR_FILENO, why, std::strlen(why));
    _exit(127);
  }
  close(pipe_fds[1]);
  Ended ended;
  const absl::Time deadline = MonotonicNow() + kWorkerPatience;
  char buffer[4096];
  bool in_time = true;
  while (true) {
    pollfd readable{.fd = pipe_fds[0], .events = POLLIN, .revents = 0};
    const int64_t left_ms = absl::ToInt64Milliseconds(deadline - MonotonicNow());
    in_time = left_ms > 0;
    if (!in_time) break;
    if (poll(&readable, 1, static_cast<int>(left_ms)) < 0 && errno == EINTR) continue;
    if (readable.revents == 0) continue;
    const ssize_t count = read(pipe_fds[0], buffer, sizeof buffer);
    if (count <= 0) break;
    if (ended.output.size() < kOutputBytesMax) ended.output.append(buffer, count);
  }
  close(pipe_fds[0]);
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    return absl::UnavailableError(
        absl::StrCat(command[0], " has not answered in ", absl::FormatDuration(kWorkerPatience)));
  }
  ended.well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return ended;
}

absl::Status DiskError(const std::string& folder, const char* doing) {
  return absl::UnavailableError(absl::StrCat(folder, ": ", doing, ": ", std::strerror(errno)));
}

absl::Status WriteAll(int fd, const std::vector<char>& block, const std::string& folder) {
  size_t done = 0;
  while (done < block.size()) {
    const ssize_t count = write(fd, block.data() + done, block.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return DiskError(folder, "cannot write");
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::Status TimeWrites(int fd, const std::string& folder, double free_bytes,
                        DiskReading* reading) {
  // Not zeros, which some file systems do not store.
  std::vector<char> block(kBlockBytes);
  uint64_t word = 0x9e3779b97f4a7c15;
  for (char& c : block) c = static_cast<char>((word = word * 6364136223846793005 + 1) >> 56);
  const size_t bytes = static_cast<double>(kDiskBytes) < free_bytes / 2 ? kDiskBytes : kBlockBytes;
  const absl::Time begin = MonotonicNow();
  for (size_t done = 0; done < bytes; done += block.size())
    LONGWAVE_RETURN_IF_ERROR(WriteAll(fd, block, folder));
  if (fsync(fd) != 0) return DiskError(folder, "cannot sync");
  const absl::Time written = MonotonicNow();
  reading->bytes_per_second =
      static_cast<double>(bytes) / absl::ToDoubleSeconds(written - begin + absl::Microseconds(1));
  LONGWAVE_RETURN_IF_ERROR(WriteAll(fd, std::vector<char>(4096, 'x'), folder));
  if (fsync(fd) != 0) return DiskError(folder, "cannot sync");
  reading->sync = MonotonicNow() - written;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WorkerReading> MeasureWorker(const std::string& binaries,
                                            const std::string& device) {
  const std::string program = absl::StrCat(binaries, "/longwave-worker");
  if (access(program.c_str(), X_OK) != 0)
    return absl::UnavailableError(absl::StrCat(program, ": ", std::strerror(errno)));
  LONGWAVE_ASSIGN_OR_RETURN(const Ended ended, RunToEnd({program, "--check-device", device}));
  WorkerReading reading;
  for (absl::string_view line : absl::StrSplit(ended.output, '\n')) {
    if (absl::ConsumePrefix(&line, "device "))
      reading.device = std::string(line);
    else if (absl::ConsumePrefix(&line, "why not cuda "))
      reading.why_not_cuda = std::string(line);
  }
  if (ended.well && !reading.device.empty()) return reading;
  // Of the loader's sentence, which begins with the program, the library comes first: what is
  // quoted is short.
  absl::string_view why = absl::StripAsciiWhitespace(ended.output);
  absl::ConsumePrefix(&why, absl::StrCat(program, ": "));
  absl::ConsumePrefix(&why, "error while loading shared libraries: ");
  return absl::UnavailableError(absl::StrCat(
      program, " does not start: ", why.empty() ? "it says nothing" : Quotable(std::string(why))));
}

absl::StatusOr<DiskReading> MeasureDisk(const std::string& folder) {
  DiskReading reading{.folder = folder};
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!fs::is_directory(there, error) && there.has_relative_path()) there = there.parent_path();
  struct statvfs file_system = {};
  if (statvfs(there.c_str(), &file_system) != 0) return DiskError(there, "cannot be looked at");
  reading.free_bytes =
      static_cast<double>(file_system.f_bavail) * static_cast<double>(file_system.f_frsize);
  std::string file = there / ".longwave-doctor-XXXXXX";
  const int fd = mkostemp(file.data(), O_CLOEXEC);
  if (fd < 0) return DiskError(there, "cannot be written to");
  const absl::Status timed = TimeWrites(fd, there, reading.free_bytes, &reading);
  close(fd);
  unlink(file.c_str());
  LONGWAVE_RETURN_IF_ERROR(timed);
  return reading;
}

}  // namespace longwave
