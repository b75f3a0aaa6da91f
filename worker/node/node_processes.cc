#include "worker/node/node_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "worker/node/rank_environment.h"
#include "worker/node/socket_link.h"

namespace longwave {
namespace {

// How long the other ranks may take to end once the link has ended: then nothing is left to keep.
constexpr absl::Duration kEndPatience = absl::Seconds(2);

absl::Status SystemError(const char* what) {
  return Unavailable(absl::ErrnoToStatus(errno, absl::StrCat("node: ", what)).message());
}

absl::StatusOr<std::span<std::byte>> Map(int memory, size_t bytes) {
  void* const area = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (area == MAP_FAILED) return SystemError("mmap of the shared memory");
  return std::span(static_cast<std::byte*>(area), bytes);
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts a process that has two descriptors of this one. Between fork and exec there are only
// async-signal-safe calls, since other threads may hold locks.
absl::StatusOr<pid_t> Spawn(std::vector<std::string> command, std::vector<std::string> environment,
                            int socket, int memory) {
  const std::vector<char*> argv = Pointers(command), envp = Pointers(environment);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return SystemError("fork");
  if (child > 0) return child;
  // A parent that ended before the call sends no signal.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(127);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0) _exit(127);
  if (fcntl(socket, F_SETFD, 0) != 0 || fcntl(memory, F_SETFD, 0) != 0) _exit(127);
  execve(argv[0], argv.data(), envp.data());
  _exit(127);
}

// Waits for the child's end until the deadline, and then kills it.
void Reap(pid_t child, absl::Time deadline) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  if (descriptor >= 0) {
    pollfd waited = {.fd = descriptor, .events = POLLIN};
    int ready = -1;
    do {
      const absl::Duration left = std::max(deadline - MonotonicNow(), absl::ZeroDuration());
      ready = poll(&waited, 1, static_cast<int>(absl::ToInt64Milliseconds(left)));
    } while (ready < 0 && errno == EINTR);
    close(descriptor);
    if (ready <= 0) kill(child, SIGKILL);
  } else {
    kill(child, SIGKILL);  // a kernel without pidfd_open
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodeProcesses>> NodeProcesses::Start(
    uint32_t ranks, const std::vector<std::string>& command, size_t area_bytes) {
  const int memory = memfd_create("longwave-node", MFD_CLOEXEC);
  if (memory < 0) return SystemError("memfd_create");
  const bool has_size = ftruncate(memory, static_cast<off_t>(area_bytes)) == 0;
  absl::StatusOr<std::span<std::byte>> area = SystemError("ftruncate of the shared memory");
  if (has_size) area = Map(memory, area_bytes);
  std::vector<int> sockets;
  std::vector<pid_t> children;
  absl::Status started = area.status();
  for (uint32_t rank = 1; started.ok() && rank < ranks; ++rank) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      started = SystemError("socketpair");
      break;
    }
    sockets.push_back(pair[0]);
    std::vector<std::string> words = command;
    words.push_back(absl::StrCat("--node-place=", rank, ",", ranks, ",", pair[1], ",", memory));
    const absl::StatusOr<pid_t> child =
        Spawn(std::move(words), EnvironmentOfRank(rank), pair[1], memory);
    close(pair[1]);
    if (child.ok()) children.push_back(*child);
    started = child.status();
  }
  close(memory);
  if (!started.ok()) {
    for (const int socket : sockets) close(socket);
    for (const pid_t child : children) Reap(child, MonotonicNow());
    if (area.ok()) munmap(area->data(), area->size());
    return started;
  }
  std::unique_ptr<NodeProcesses> node(new NodeProcesses(
      *area, std::make_unique<SocketLink>(NodeRank{.rank = 0, .ranks = ranks}, sockets)));
  node->children_ = std::move(children);
  return node;
}

absl::StatusOr<std::unique_ptr<NodeProcesses>> NodeProcesses::Join(const std::string& argument) {
  std::vector<uint32_t> numbers;
  for (const absl::string_view word : absl::StrSplit(argument, ',')) {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(word, &number)) break;
    numbers.push_back(number);
  }
  struct stat memory_of = {};
  if (numbers.size() != 4 || numbers[0] == 0 || numbers[0] >= numbers[1] ||
      fstat(static_cast<int>(numbers[3]), &memory_of) != 0) {
    return InvalidArgument("--node-place: got ", argument, ", wanted what rank 0 of a node gives");
  }
  const int socket = static_cast<int>(numbers[2]), memory = static_cast<int>(numbers[3]);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  const absl::StatusOr<std::span<std::byte>> area =
      Map(memory, static_cast<size_t>(memory_of.st_size));
  close(memory);
  LONGWAVE_RETURN_IF_ERROR(area.status());
  return std::unique_ptr<NodeProcesses>(new NodeProcesses(
      *area, std::make_unique<SocketLink>(NodeRank{.rank = numbers[0], .ranks = numbers[1]},
                                          std::vector<int>{socket})));
}

NodeProcesses::~NodeProcesses() {
  link_.reset();
  const absl::Time deadline = MonotonicNow() + kEndPatience;
  for (const pid_t child : children_) Reap(child, deadline);
  munmap(area_.data(), area_.size());
}

}  // namespace longwave
