#include "common/metrics/metrics_server.h"

#include <civetweb.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/listen_address.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr char kPageType[] = "text/plain; version=0.0.4; charset=utf-8";

class MetricsServerImpl final : public MetricsServer {
 public:
  explicit MetricsServerImpl(Metrics* metrics) : metrics_(metrics) {}
  ~MetricsServerImpl() override {
    if (context_ != nullptr) mg_stop(context_);
  }

  absl::Status Listen(const std::string& address) {
    LONGWAVE_ASSIGN_OR_RETURN(const ListenAddress at, FindListenAddress(address));
    const std::string place = absl::StrCat(at.numeric, ":", at.port);
    const std::string timeout = absl::StrCat(kRequestTimeoutMs);
    // Two threads: while one gives a page, the other one says that the process lives.
    const char* const options[] = {
        "listening_ports", place.c_str(),       "num_threads", "2",    "request_timeout_ms",
        timeout.c_str(),   "enable_keep_alive", "no",          nullptr};
    mg_callbacks callbacks;
    std::memset(&callbacks, 0, sizeof callbacks);
    callbacks.begin_request = &MetricsServerImpl::Answer;
    callbacks.log_message = [](const mg_connection*, const char*) { return 1; };  // not to stderr
    context_ = mg_start(&callbacks, this, const_cast<const char**>(options));
    if (context_ == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", address, ": the port was taken just now"));
    }
    mg_server_port port;
    if (mg_get_server_ports(context_, 1, &port) != 1)
      return absl::InternalError(absl::StrCat("nothing listens on ", address));
    address_ = absl::StrCat(at.host, ":", port.port);
    return absl::OkStatus();
  }

  std::string address() const override { return address_; }

 private:
  // Anything but 0: the request was answered, with that status.
  static int Answer(mg_connection* connection) {
    const mg_request_info& request = *mg_get_request_info(connection);
    const std::string_view method = request.request_method;
    const std::string_view path = request.local_uri == nullptr ? "" : request.local_uri;
    const bool with_body = method != "HEAD";
    if (method != "GET" && method != "HEAD")
      return Send(connection, 405, "Method Not Allowed", kPlainText, "wanted GET\n", true);
    if (path == "/healthz") return Send(connection, 200, "OK", kPlainText, "ok\n", with_body);
    if (path == "/metrics") {
      auto* const self = static_cast<MetricsServerImpl*>(request.user_data);
      return Send(connection, 200, "OK", kPageType, self->metrics_->Page(), with_body);
    }
    return Send(connection, 404, "Not Found", kPlainText, "there are /metrics and /healthz\n",
                with_body);
  }

  static int Send(mg_connection* connection, int status, const char* reason, const char* type,
                  const std::string& body, bool with_body) {
    const std::string head = absl::StrCat(
        "HTTP/1.1 ", status, " ", reason, "\r\nContent-Type: ", type,
        "\r\nContent-Length: ", body.size(), "\r\nCache-Control: no-store\r\nConnection: close",
        status == 405 ? "\r\nAllow: GET, HEAD" : "", "\r\n\r\n");
    mg_write(connection, head.data(), head.size());
    if (with_body) mg_write(connection, body.data(), body.size());
    return status;
  }

  Metrics* const metrics_;
  mg_context* context_ = nullptr;
  std::string address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address,
                                                                    Metrics* metrics) {
  auto server = std::make_unique<MetricsServerImpl>(metrics);
  if (const absl::Status listens = server->Listen(address); !listens.ok()) {
    return absl::Status(listens.code(), absl::StrCat("metrics: ", listens.message()));
  }
  return server;
}

}  // namespace longwave
