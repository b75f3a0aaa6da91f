#include "cli/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/programs/programs.h"
#include "common/base/descriptor.h"
#include "common/base/errors.h"

extern char** environ;

namespace longwave {
namespace {

constexpr int kExitCannotExec = 127;
constexpr std::streamoff kLogTailBytes = 64 * 1024;
constexpr size_t kLineBytesMax = 64 * 1024;

std::string ErrorText(int error) { return std::generic_category().message(error); }

// The parent's environment with `changes`, as "NAME=value".
std::vector<std::string> ChildEnvironment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : changes) result.push_back(absl::StrCat(name, "=", value));
  return result;
}

// Waits for the end of the parent, and then ends the process group that the parent has put this
// process into: the kernel's watch of a child does not reach the child's own children, such as
// those of `sh -c`. Only async-signal-safe calls.
[[noreturn]] void BecomeGuard(pid_t parent, pid_t parent_group) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "longwave-guard");
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // A signal of another process ends nothing.
  while (getppid() == parent) sigwaitinfo(&all, nullptr);
  if (getpgrp() != parent_group) kill(0, SIGKILL);
  _exit(0);
}

void WaitFor(pid_t pid, int* status) {
  while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
  }
}

void EndGuard(pid_t guard) {
  if (guard < 0) return;
  kill(guard, SIGKILL);
  WaitFor(guard, nullptr);
}

// The child's part between fork and exec. Only async-signal-safe calls, since other threads of the
// parent may have held any lock. `begin_fd` ends once the guard is in the child's group, or the
// parent is dead. `failure_fd` carries the reason of a failure to the parent; a successful exec
// closes it.
[[noreturn]] void BecomeChild(pid_t parent, char* const* argv, char* const* envp, int begin_fd,
                              int null_fd, int output_fd, int log_fd, int failure_fd) {
  sigset_t none;
  sigemptyset(&none);
  std::signal(SIGPIPE, SIG_DFL);
  bool ok = setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  char none_comes;
  while (read(begin_fd, &none_comes, 1) < 0 && errno == EINTR) {
  }
  if (getppid() != parent) _exit(kExitCannotExec);  // the parent died before the watch was set
  ok = ok && dup2(null_fd, STDIN_FILENO) >= 0 && dup2(output_fd, STDOUT_FILENO) >= 0 &&
       dup2(log_fd, STDERR_FILENO) >= 0 && sigprocmask(SIG_SETMASK, &none, nullptr) == 0;
  if (ok) execve(argv[0], argv, envp);
  const int error = errno;
  (void)!write(failure_fd, &error, sizeof(error));
  _exit(kExitCannotExec);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Process>> Process::Start(const ProcessOptions& options) {
  const std::vector<std::string> environment = ChildEnvironment(options.environment);
  const std::vector<char*> argv = PointersTo(options.argv);
  const std::vector<char*> envp = PointersTo(environment);

  pid_t guard = -1;
  const auto failed = [&](int error) {
    EndGuard(guard);
    return Unavailable("cannot start ", options.name, " (", options.argv[0],
                       "): ", ErrorText(error));
  };
  const pid_t parent = getpid(), parent_group = getpgrp();
  if (options.is_command) {
    guard = fork();  // before the pipes, whose ends it would hold open
    if (guard < 0) return failed(errno);
    if (guard == 0) BecomeGuard(parent, parent_group);
  }
  Descriptor null_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Descriptor log_fd(
      open(options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (null_fd.get() < 0 || log_fd.get() < 0) return failed(errno);
  const off_t log_begin = std::max<off_t>(0, lseek(log_fd.get(), 0, SEEK_END));
  int begin[2], output[2], failure[2];
  if (pipe2(begin, O_CLOEXEC) != 0) return failed(errno);
  Descriptor begin_read(begin[0]), begin_write(begin[1]);
  if (pipe2(output, O_CLOEXEC) != 0) return failed(errno);
  Descriptor output_read(output[0]), output_write(output[1]);
  if (pipe2(failure, O_CLOEXEC) != 0) return failed(errno);
  Descriptor failure_read(failure[0]), failure_write(failure[1]);

  const pid_t pid = fork();
  if (pid < 0) return failed(errno);
  if (pid == 0) {
    begin_write.Close();
    BecomeChild(parent, argv.data(), envp.data(), begin_read.get(), null_fd.get(),
                output_write.get(), log_fd.get(), failure_write.get());
  }
  if (guard > 0) {
    setpgid(pid, pid);  // the child may not have done so yet
    setpgid(guard, pid);
  }
  begin_write.Close();
  failure_write.Close();
  int error = 0;
  ssize_t got;
  do {
    got = read(failure_read.get(), &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    WaitFor(pid, nullptr);
    return failed(error);
  }
  fcntl(output_read.get(), F_SETFL, O_NONBLOCK);
  return std::unique_ptr<Process>(
      new Process(options.name, pid, guard, output_read.Release(), options.log_file, log_begin));
}

Process::~Process() {
  if (Running()) {
    EndGroup();
    WaitFor(pid_, &wait_status_);
  }
  if (output_fd_ >= 0) close(output_fd_);
}

std::optional<std::string> Process::ReadLine() {
  // Reads more only where no line is left, so that a child that never pauses is not read for ever.
  char buffer[4096];
  while (true) {
    const size_t end = output_.find('\n', searched_);
    if (end != std::string::npos || output_.size() >= kLineBytesMax) {
      std::string line = output_.substr(0, end);
      output_.erase(0, end == std::string::npos ? end : end + 1);
      searched_ = 0;
      return line;
    }
    searched_ = output_.size();
    if (output_fd_ < 0) return std::nullopt;
    const ssize_t got = read(output_fd_, buffer, sizeof(buffer));
    if (got > 0) {
      output_.append(buffer, static_cast<size_t>(got));
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      close(std::exchange(output_fd_, -1));  // the end
    } else if (errno == EAGAIN) {
      return std::nullopt;
    }
  }
}

bool Process::Running() {
  if (!running_) return false;
  // Until waited for, the process keeps its id and its group's id.
  siginfo_t ended = {};
  if (waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      ended.si_pid != pid_) {
    return true;
  }
  EndGroup();
  if (waitpid(pid_, &wait_status_, WNOHANG) == pid_) running_ = false;
  return running_;
}

void Process::EndGroup() {
  kill(-pid_, SIGKILL);
  EndGuard(std::exchange(guard_, -1));
}

std::optional<int> Process::killed_by() const {
  if (running_ || !WIFSIGNALED(wait_status_)) return std::nullopt;
  return WTERMSIG(wait_status_);
}

void Process::Signal(int signal) {
  if (Running()) kill(pid_, signal);
}

std::string Process::FailureSentence() const {
  std::ifstream log(log_file_, std::ios::binary | std::ios::ate);
  if (log) {
    const std::streamoff size = log.tellg();
    log.seekg(std::min(size, std::max<std::streamoff>(log_begin_, size - kLogTailBytes)));
    std::stringstream tail;
    tail << log.rdbuf();
    std::string sentence = LastErrorLine(tail.str());
    if (!sentence.empty()) return sentence;
  }
  if (WIFSIGNALED(wait_status_)) {
    return absl::StrCat("ended by signal ", WTERMSIG(wait_status_), " (",
                        strsignal(WTERMSIG(wait_status_)), "); see ", log_file_);
  }
  return absl::StrCat("ended early with exit status ", WEXITSTATUS(wait_status_), "; see ",
                      log_file_);
}

std::string LastErrorLine(std::string_view text) {
  absl::string_view last;
  bool in_traceback = false;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    if (absl::ConsumePrefix(&line, "error: ")) {
      last = line;
    } else if (absl::StartsWith(line, "Traceback (most recent call last)")) {
      in_traceback = true;
    } else if (in_traceback && !line.empty() && line.front() != ' ') {
      last = line;
      in_traceback = false;
    }
  }
  return std::string(last);
}

}  // namespace longwave
