#include "common/metrics/metrics_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <list>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/listener.h"
#include "common/base/status_macros.h"
#include "common/base/wake_event.h"
#include "common/log/log.h"
#include "common/metrics/http_request.h"

namespace longwave {
namespace {

constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);
constexpr char kPageType[] = "text/plain; version=0.0.4; charset=utf-8";

struct Answer {
  const char* status = "200 OK";
  const char* type = kPlainText;
  std::string body;
  const char* more = "";  // for the head
};

std::string Written(const Answer& answer, bool with_body) {
  return absl::StrCat("HTTP/1.1 ", answer.status, "\r\nContent-Type: ", answer.type,
                      "\r\nContent-Length: ", answer.body.size(), answer.more,
                      "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
                      with_body ? answer.body : std::string());
}

// A request, and the unsent part of its answer.
class Connection {
 public:
  explicit Connection(int fd)
      : fd_(fd), deadline_(MonotonicNow() + MetricsServer::kRequestPatience) {}
  ~Connection() { close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return fd_; }
  absl::Time deadline() const { return deadline_; }
  short wants() const { return is_answering_ ? POLLOUT : POLLIN; }

  // Reads or sends as much as possible without waiting. Returns false at the end. `answer`: maps a
  // request's head to its answer.
  template <typename ToAnswer>
  bool GoOn(const ToAnswer& answer) {
    if (!is_answering_) {
      char buffer[4096];
      const ssize_t got = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
      if (got <= 0) return got < 0 && MayGoOn();
      text_.append(buffer, static_cast<size_t>(got));
      const bool is_too_long = text_.size() > MetricsServer::kRequestBytesMax;
      const size_t head_end = text_.find("\r\n\r\n");
      if (!is_too_long && head_end == std::string::npos) return true;
      text_ = answer(std::string_view(text_).substr(0, is_too_long ? 0 : head_end));
      is_answering_ = true;
      deadline_ = MonotonicNow() + MetricsServer::kAnswerPatience;
    }
    const ssize_t sent =
        send(fd_, text_.data() + sent_, text_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return MayGoOn();
    sent_ += static_cast<size_t>(sent);
    return sent_ < text_.size();
  }

 private:
  static bool MayGoOn() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

  const int fd_;
  absl::Time deadline_;
  std::string text_;  // the request, then the answer
  bool is_answering_ = false;
  size_t sent_ = 0;
};

class MetricsServerImpl final : public MetricsServer {
 public:
  MetricsServerImpl(Listener listener, WakeEvent end, Metrics* metrics)
      : listener_(std::move(listener)),
        metrics_(metrics),
        end_(std::move(end)),
        thread_([this] { Serve(); }) {}

  ~MetricsServerImpl() override {
    end_.Wake();
    thread_.join();
  }

  std::string address() const override {
    return absl::StrCat(listener_.host(), ":", listener_.port());
  }

 private:
  void Serve() {
    while (true) {
      const bool accepts = MonotonicNow() >= accepts_again_at_;
      const short comers = accepts ? POLLIN : 0;
      std::vector<pollfd> waiting = {{end_.fd(), POLLIN, 0}, {listener_.fd(), comers, 0}};
      absl::Time next = accepts ? absl::InfiniteFuture() : accepts_again_at_;
      for (const Connection& connection : connections_) {
        waiting.push_back({connection.fd(), connection.wants(), 0});
        next = std::min(next, connection.deadline());
      }
      poll(waiting.data(), waiting.size(), TimeoutMs(next));
      if (waiting[0].revents != 0) return;
      const absl::Time now = MonotonicNow();
      auto place = waiting.begin() + 2;
      for (auto connection = connections_.begin(); connection != connections_.end(); ++place) {
        const bool goes_on =
            place->revents == 0
                ? now < connection->deadline()
                : connection->GoOn([this](std::string_view head) { return AnswerTo(head); });
        connection = goes_on ? std::next(connection) : connections_.erase(connection);
      }
      if (waiting[1].revents != 0) Accept();
    }
  }

  static int TimeoutMs(absl::Time next) {
    if (next == absl::InfiniteFuture()) return -1;
    const absl::Duration left = std::max(next - MonotonicNow(), absl::ZeroDuration());
    return static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
  }

  void Accept() {
    const int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      // No file descriptor is left: accept would fail and wake the thread again at once.
      if (errno != EAGAIN) accepts_again_at_ = MonotonicNow() + kAcceptPause;
      if (errno != EAGAIN && !connections_.empty()) connections_.pop_front();
      return;
    }
    if (connections_.size() == kConnectionsMax) connections_.pop_front();
    connections_.emplace_back(fd);
  }

  // head: the request's; empty if malformed.
  std::string AnswerTo(std::string_view head) {
    const std::optional<HttpRequest> request = ParseHttpRequest(head);
    if (!request.has_value()) {
      return Written({.status = "400 Bad Request", .body = "wanted an HTTP/1 request\n"}, true);
    }
    if (request->method != "GET" && request->method != "HEAD") {
      return Written({.status = "405 Method Not Allowed",
                      .body = "wanted GET\n",
                      .more = "\r\nAllow: GET, HEAD"},
                     true);
    }
    return Written(Get(request->path), request->method == "GET");
  }

  Answer Get(std::string_view path) {
    if (path == "/healthz") return {.body = "ok\n"};
    if (path == "/metrics") return {.type = kPageType, .body = metrics_->Page()};
    return {.status = "404 Not Found", .body = "there are /metrics and /healthz\n"};
  }

  const Listener listener_;
  Metrics* const metrics_;
  const WakeEvent end_;
  std::list<Connection> connections_;  // the thread's; the oldest first
  absl::Time accepts_again_at_ = absl::InfinitePast();
  std::thread thread_;  // last, since it uses the members above
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address,
                                                                    Metrics* metrics) {
  absl::StatusOr<Listener> listener = Listener::Open(address);
  if (!listener.ok()) return Prefixed("metrics", listener.status());
  LONGWAVE_ASSIGN_OR_RETURN(WakeEvent end, WakeEvent::Create());
  // So that accept does not block on a peer that has disconnected already.
  fcntl(listener->fd(), F_SETFL, fcntl(listener->fd(), F_GETFL) | O_NONBLOCK);
  return std::make_unique<MetricsServerImpl>(*std::move(listener), std::move(end), metrics);
}

absl::StatusOr<std::unique_ptr<MetricsServer>> ServeMetrics(const std::optional<std::string>& flag,
                                                            const std::string& configured,
                                                            Metrics* metrics) {
  const std::string& address = flag.has_value() ? *flag : configured;
  if (address.empty()) return nullptr;
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<MetricsServer> server,
                            MetricsServer::Start(address, metrics));
  Log(LogLevel::kInfo, "metrics ", server->url());
  return server;
}

void SayMetrics(const MetricsServer* server) {
  if (server == nullptr) return;
  std::printf("metrics %s\n", server->address().c_str());
  std::fflush(stdout);
}

}  // namespace longwave
