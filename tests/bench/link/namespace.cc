#include "tests/bench/link/namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

absl::Status Failure(absl::string_view what, int error) {
  const std::string sentence =
      absl::StrCat("cannot ", what, ": ", std::generic_category().message(error));
  if (error != EPERM) return absl::UnavailableError(sentence);
  return absl::PermissionDeniedError(
      absl::StrCat(sentence, "; wanted root (CAP_NET_ADMIN and CAP_SYS_ADMIN)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NetNamespace>> NetNamespace::Create() {
  int fd = -1, error = 0;
  // A thread that enters a new namespace and ends there does not affect other threads.
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0 ||
        (fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) < 0) {
      error = errno;
    }
  }).join();
  if (fd < 0) return Failure("make a network namespace", error);
  return std::unique_ptr<NetNamespace>(new NetNamespace(fd));
}

NetNamespace::~NetNamespace() { close(fd_); }

std::string NetNamespace::path() const { return absl::StrCat("/proc/", getpid(), "/fd/", fd_); }

absl::Status NetNamespace::Enter() const {
  if (setns(fd_, CLONE_NEWNET) != 0) return Failure("enter a network namespace", errno);
  return absl::OkStatus();
}

absl::Status NetNamespace::Do(const std::function<absl::Status()>& action) const {
  absl::Status status;
  std::thread([&] {
    status = Enter();
    if (status.ok()) status = action();
  }).join();
  return status;
}

}  // namespace longwave
