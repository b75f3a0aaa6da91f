#include "common/link/link.h"

#include <cerrno>
#include <utility>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/wake_event.h"
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
    LONGWAVE_ASSIGN_OR_RETURN(std::optional<PeerFrame> received, socket_.Receive(timeout, nullptr));
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
  ZmqRouter(WakeEvent wake, const LinkOptions& options)
      : wake_(std::move(wake)), socket_(zmq::socket_type::router, options) {}

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
    return socket_.Receive(timeout, &wake_);
  }

  void Wake() override { wake_.Wake(); }

  void SetAdmitted(const std::vector<AdmittedKeys::Member>& members) override {
    if (socket_.admitted() != nullptr) socket_.admitted()->Set(members);
  }

  Encryption encryption() const override { return socket_.encryption(); }
  const LinkCounts& counts() const override { return socket_.counts(); }
  std::string last_refusal() const override { return socket_.last_refusal(); }

 private:
  const WakeEvent wake_;
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
  LONGWAVE_ASSIGN_OR_RETURN(WakeEvent wake, WakeEvent::Create());
  try {
    auto router = std::make_unique<ZmqRouter>(std::move(wake), options);
    router->Bind(EndpointToBind(endpoint));
    return router;
  } catch (const zmq::error_t& error) {
    return BindError(endpoint, error.num(), error.what());
  }
}

}  // namespace longwave
