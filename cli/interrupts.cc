#include "cli/interrupts.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "common/base/errors.h"
#include "common/base/termination.h"

namespace longwave {

absl::StatusOr<Interrupts> Interrupts::Block() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  // The descriptor would get a blocked signal even where it is ignored.
  if (!IgnoresHangup()) sigaddset(&signals, SIGHUP);
  const int error = pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const int fd = error == 0 ? signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
  if (fd < 0) {
    return Internal("cannot watch for signals: ",
                    std::generic_category().message(error != 0 ? error : errno));
  }
  return Interrupts(fd, signals);
}

Interrupts::~Interrupts() {
  if (fd_ < 0) return;
  signalfd(fd_, &signals_, 0);  // a second SIGHUP too
  signalfd_siginfo info;
  while (read(fd_, &info, sizeof(info)) > 0) {
  }
  close(fd_);
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
}

std::optional<int> Interrupts::Take() {
  signalfd_siginfo info;
  if (read(fd_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return std::nullopt;
  if (info.ssi_signo == SIGHUP) {
    sigset_t others = signals_;
    sigdelset(&others, SIGHUP);
    signalfd(fd_, &others, 0);
  }
  return static_cast<int>(info.ssi_signo);
}

}  // namespace longwave
