#include "common/link/link.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/link/endpoint.h"
#include "common/link/socket.h"

namespace longwave {
namespace {

class ZmqDealer final : public Dealer {
 public:
  explicit ZmqDealer(const LinkOptions& options) : socket_(zmq::socket_type::dealer, options) {
    socket_.zmq().set(zmq::sockopt::immediate, options.only_while_connected);
  }

  void Connect(const KeyedEndpoint& to) {
    socket_.zmq().set(zmq::sockopt::ipv6, true);  // connects to IPv4 and IPv6
    if (!to.key.empty()) {
      const int set =
          zmq_setsockopt(socket_.zmq().handle(), ZMQ_CURVE_SERVERKEY, to.key.data(), to.key.size());
      if (set != 0) throw zmq::error_t();
    }
    socket_.zmq().connect(to.endpoint);
  }

  absl::Status Send(const SealedFrame& frame) override { return socket_.Send(nullptr, frame); }

  absl::StatusOr<std::optional<Frame>> Receive(absl::Duration timeout) override {
    LONGWAVE_ASSIGN_OR_RETURN(std::optional<PeerFrame> received, socket_.Receive(timeout, -1));
    if (!received.has_value()) return std::nullopt;
    return std::move(received->frame);
  }

  Encryption encryption() const override { return socket_.encryption(); }
  const LinkCounts& counts() const override { return socket_.counts(); }
  std::string last_refusal() const override { return socket_.last_refusal(); }
  void* handle() override { return socket_.zmq().handle(); }

 private:
  LinkSocket socket_;
};

class ZmqRouter final : public Router {
 public:
  ZmqRouter(int wake_fd, const LinkOptions& options)
      : wake_fd_(wake_fd), socket_(zmq::socket_type::router, options) {}
  ~ZmqRouter() override { close(wake_fd_); }

  void Bind(const std::string& endpoint) {
    // Only for an IPv6 endpoint: a listener of both families names itself [::ffff:127.0.0.1].
    socket_.zmq().set(zmq::sockopt::ipv6, endpoint.find('[') != std::string::npos);
    socket_.zmq().bind(endpoint);
    endpoint_ = socket_.zmq().get(zmq::sockopt::last_endpoint);
  }

  std::string endpoint() const override { return endpoint_; }

  absl::Status Send(const PeerId& peer, const SealedFrame& frame) override {
    return socket_.Send(&peer, frame);
  }

  absl::StatusOr<std::optional<PeerFrame>> Receive(absl::Duration timeout) override {
    return socket_.Receive(timeout, wake_fd_);
  }

  void Wake() override {
    const uint64_t one = 1;
    // A write fails only if the counter is at its maximum; then a wake-up is pending anyway.
    [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
  }

  void SetAdmitted(const std::vector<AdmittedKeys::Member>& members) override {
    if (socket_.door() != nullptr) socket_.door()->admitted.Set(members);
  }

  Encryption encryption() const override { return socket_.encryption(); }
  const LinkCounts& counts() const override { return socket_.counts(); }
  std::string last_refusal() const override { return socket_.last_refusal(); }

 private:
  const int wake_fd_;
  std::string endpoint_;
  LinkSocket socket_;
};

absl::Status BindError(const std::string& endpoint, int error_number, const char* what) {
  switch (error_number) {
    case EADDRINUSE:
      return Unavailable("cannot listen on ", endpoint,
                         ": the port is in use (wanted a free one; port 0 picks one)");
    case EADDRNOTAVAIL:
    case ENODEV:
      return InvalidArgument("cannot listen on ", endpoint,
                             ": the host is not an address of this machine");
    case EACCES:
      return PermissionDenied("cannot listen on ", endpoint,
                              ": this user may not (ports below 1024 are the system's)");
    default:
      return InvalidArgument("cannot listen on ", endpoint, ": ", what);
  }
}

}  // namespace

absl::Status Dealer::Send(const FrameHeader& header, Buffer payload) {
  LONGWAVE_ASSIGN_OR_RETURN(const SealedFrame frame, Seal(header, std::move(payload)));
  return Send(frame);
}

absl::Status Router::Send(const PeerId& peer, const FrameHeader& header, Buffer payload) {
  LONGWAVE_ASSIGN_OR_RETURN(const SealedFrame frame, Seal(header, std::move(payload)));
  return Send(peer, frame);
}

absl::StatusOr<std::unique_ptr<Dealer>> Dealer::Connect(const std::string& endpoint,
                                                        const LinkOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(const KeyedEndpoint to, SplitKey(endpoint));
  LONGWAVE_RETURN_IF_ERROR(CheckEndpoint(to.endpoint, EndpointUse::kConnect));
  if (to.key.empty() != options.keys.empty()) {
    return InvalidArgument("endpoint \"", endpoint, "\": ",
                           to.key.empty() ? "names no key, and this side encrypts"
                                          : "names a key, and this side has none",
                           "; wanted security.mode to be the same on both");
  }
  try {
    auto dealer = std::make_unique<ZmqDealer>(options);
    dealer->Connect(to);
    return dealer;
  } catch (const zmq::error_t& error) {
    return InvalidArgument("cannot connect to ", endpoint, ": ", error.what());
  }
}

absl::StatusOr<std::unique_ptr<Router>> Router::Bind(const std::string& endpoint,
                                                     const LinkOptions& options) {
  LONGWAVE_RETURN_IF_ERROR(CheckEndpoint(endpoint, EndpointUse::kBind));
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return ResourceExhausted("no file descriptor left for a router");
  try {
    auto router = std::make_unique<ZmqRouter>(wake_fd, options);
    router->Bind(EndpointToBind(endpoint));
    return router;
  } catch (const zmq::error_t& error) {
    return BindError(endpoint, error.num(), error.what());
  }
}

}  // namespace longwave
