#include "cli/bench/delay_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <list>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

constexpr size_t kReadBytesMax = 64 * 1024;
constexpr int kBacklog = 128;

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::StatusOr<sockaddr_in> Ipv4(const std::string& address, uint16_t port) {
  sockaddr_in result = {};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  if (inet_pton(AF_INET, address.c_str(), &result.sin_addr) == 1) return result;
  return absl::InvalidArgumentError(
      absl::StrCat("delay proxy: got the address ", address, ", wanted an IPv4 address"));
}

// Closing it then breaks the connection: the peer gets a reset, not an end.
void WillBreak(int fd) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

// What came from one side and is to go to the other.
struct Direction {
  enum class Kind { kBytes, kEnd, kBreak };
  struct Item {
    absl::Time due;
    Kind kind;
    std::vector<char> bytes;
    size_t written = 0;
  };
  int from = -1, to = -1;  // the connection's
  std::deque<Item> items;
  size_t held_bytes = 0;
  bool at_end = false;     // nothing more will be read
  bool delivered = false;  // nothing more will be written

  bool Reads(size_t held_bytes_max) const { return !at_end && held_bytes < held_bytes_max; }
  bool IsDue(absl::Time now) const { return !items.empty() && items.front().due <= now; }
};

struct Connection {
  Fd client, target;
  bool connected = false;  // with the target
  Direction up, down;      // client → target, target → client
  bool broken = false;

  bool Over() const { return broken || (up.delivered && down.delivered); }
};

class DelayProxyImpl final : public DelayProxy {
 public:
  DelayProxyImpl(const DelayProxyOptions& options, sockaddr_in target, Fd listener, Fd wake,
                 uint16_t port)
      : options_(options),
        target_(target),
        listener_(std::move(listener)),
        wake_(std::move(wake)),
        port_(port),
        thread_([this] { Serve(); }) {}

  ~DelayProxyImpl() override {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);
    thread_.join();
    for (Connection& connection : connections_) Break(connection);
  }

  uint16_t port() const override { return port_; }

 private:
  void Serve() {
    std::vector<pollfd> fds;
    while (true) {
      fds = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      now_ = MonotonicNow();  // once, so that all waits of a pass agree on what is due
      for (const Connection& connection : connections_) AddWaits(connection, &fds);
      if (Poll(fds) < 0 && errno != EINTR) return;
      if (fds[0].revents != 0) return;
      size_t next = 2;
      for (Connection& connection : connections_) {
        const pollfd client = fds[next++], target = fds[next++];
        Handle(connection, client.revents, target.revents);
      }
      // After the walk, so that places in `fds` are those of connections.
      if (fds[1].revents != 0) Accept();
      connections_.remove_if([](const Connection& connection) { return connection.Over(); });
    }
  }

  // Until something comes or something is due. In nanoseconds: rounded down, the thread would spin;
  // rounded up, it would delay by more than was asked for.
  int Poll(std::vector<pollfd>& fds) const {
    absl::Time due = absl::InfiniteFuture();
    for (const Connection& connection : connections_) {
      if (!connection.connected) continue;
      for (const Direction* direction : {&connection.up, &connection.down}) {
        // What is overdue waits for room at its receiver, of which poll tells.
        if (!direction->items.empty() && direction->items.front().due > now_) {
          due = std::min(due, direction->items.front().due);
        }
      }
    }
    if (due == absl::InfiniteFuture()) return ppoll(fds.data(), fds.size(), nullptr, nullptr);
    const timespec left = absl::ToTimespec(std::max(due - MonotonicNow(), absl::ZeroDuration()));
    return ppoll(fds.data(), fds.size(), &left, nullptr);
  }

  void AddWaits(const Connection& connection, std::vector<pollfd>* fds) const {
    const auto events = [&](const Direction& in, const Direction& out) {
      short wanted = 0;
      if (in.Reads(options_.held_bytes_max)) wanted |= POLLIN;
      if (connection.connected && out.IsDue(now_)) wanted |= POLLOUT;
      return wanted;
    };
    short at_target = events(connection.down, connection.up);
    if (!connection.connected) at_target = POLLOUT;
    // A side of which nothing is wanted is not watched at all: poll would go on telling of its end.
    const short at_client = events(connection.up, connection.down);
    fds->push_back({at_client != 0 ? connection.client.get() : -1, at_client, 0});
    fds->push_back({at_target != 0 ? connection.target.get() : -1, at_target, 0});
  }

  void Handle(Connection& connection, short client, short target) {
    if (!connection.connected) {
      if (target != 0) FinishConnect(connection);
    } else if (target != 0) {
      if (connection.down.Reads(options_.held_bytes_max)) Read(connection.down);
    }
    if (connection.broken) return;
    if (client != 0 && connection.up.Reads(options_.held_bytes_max)) Read(connection.up);
    if (!connection.connected) return;
    const absl::Time now = MonotonicNow();
    for (Direction* direction : {&connection.up, &connection.down}) {
      if (!connection.broken) Write(connection, *direction, now);
    }
  }

  void Accept() {
    while (true) {
      Connection connection;
      connection.client =
          Fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (connection.client.get() < 0) return;
      connection.target = Fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      const int client = connection.client.get(), target = connection.target.get();
      const int on = 1;
      for (const int fd : {client, target}) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      }
      connection.up.from = connection.down.to = client;
      connection.up.to = connection.down.from = target;
      const auto* address = reinterpret_cast<const sockaddr*>(&target_);
      if (connect(target, address, sizeof target_) != 0 && errno != EINPROGRESS) {
        WillBreak(client);
        continue;
      }
      connections_.push_back(std::move(connection));
    }
  }

  void FinishConnect(Connection& connection) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(connection.target.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    connection.connected = error == 0;
    if (error != 0) Break(connection);
  }

  void Read(Direction& direction) {
    std::vector<char> bytes(kReadBytesMax);
    const ssize_t got = recv(direction.from, bytes.data(), bytes.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    const absl::Time due = MonotonicNow() + options_.delay;
    if (got > 0) {
      bytes.resize(static_cast<size_t>(got));
      bytes.shrink_to_fit();
      direction.held_bytes += bytes.size();
      direction.items.push_back({due, Direction::Kind::kBytes, std::move(bytes)});
      return;
    }
    direction.at_end = true;
    direction.items.push_back(
        {due, got == 0 ? Direction::Kind::kEnd : Direction::Kind::kBreak, {}});
  }

  void Write(Connection& connection, Direction& direction, absl::Time now) {
    while (direction.IsDue(now)) {
      Direction::Item& item = direction.items.front();
      if (item.kind == Direction::Kind::kBreak) return Break(connection);
      if (item.kind == Direction::Kind::kEnd) {
        shutdown(direction.to, SHUT_WR);
        direction.delivered = true;
      } else {
        const ssize_t put = send(direction.to, item.bytes.data() + item.written,
                                 item.bytes.size() - item.written, MSG_NOSIGNAL);
        if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (put < 0) return Break(connection);  // the receiver is gone: the sender hears of it
        item.written += static_cast<size_t>(put);
        direction.held_bytes -= static_cast<size_t>(put);
        if (item.written < item.bytes.size()) return;
      }
      direction.items.pop_front();
    }
  }

  static void Break(Connection& connection) {
    connection.broken = true;
    WillBreak(connection.client.get());
    WillBreak(connection.target.get());
  }

  const DelayProxyOptions options_;
  const sockaddr_in target_;
  const Fd listener_, wake_;
  const uint16_t port_;
  std::list<Connection> connections_;
  absl::Time now_ = absl::InfinitePast();  // of the pass under way
  std::thread thread_;                     // last: it uses the others
};

}  // namespace

absl::StatusOr<std::unique_ptr<DelayProxy>> DelayProxy::Start(const DelayProxyOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(sockaddr_in listen_at,
                            Ipv4(options.listen_address, options.listen_port));
  LONGWAVE_ASSIGN_OR_RETURN(const sockaddr_in target,
                            Ipv4(options.target_address, options.target_port));
  Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  Fd wake(eventfd(0, EFD_CLOEXEC));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socklen_t size = sizeof listen_at;
  auto* address = reinterpret_cast<sockaddr*>(&listen_at);
  if (listener.get() < 0 || wake.get() < 0 || bind(listener.get(), address, size) != 0 ||
      listen(listener.get(), kBacklog) != 0 || getsockname(listener.get(), address, &size) != 0) {
    return absl::UnavailableError(absl::StrCat("delay proxy: cannot listen on ",
                                               options.listen_address, ":", options.listen_port,
                                               ": ", std::generic_category().message(errno)));
  }
  return std::make_unique<DelayProxyImpl>(options, target, std::move(listener), std::move(wake),
                                          ntohs(listen_at.sin_port));
}

}  // namespace longwave
