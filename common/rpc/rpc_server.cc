#include "common/rpc/rpc_server.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/call_guard.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_services.h"
#include "common/rpc/listen_check.h"
#include "common/rpc/tls.h"
#include "common/security/credentials.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"

namespace longwave {
namespace {

constexpr absl::Duration kHandshakeTimeMax = absl::Seconds(5);
// One client makes few calls at a time.
constexpr int kStreamsMax = 32;
constexpr size_t kServerBytesMax = size_t{1} << 30;

absl::StatusOr<CallGuard> GuardOf(const RpcServerOptions& options) {
  if (options.credentials.empty()) return CallGuard();
  LONGWAVE_RETURN_IF_ERROR(ReadCredentials(options.credentials).status());
  LONGWAVE_ASSIGN_OR_RETURN(
      std::unique_ptr<CallerBook> book,
      CallerBook::Open(absl::StrCat(options.credentials, "/", kAuthorityFile)));
  return CallGuard(std::move(book), options.refusals);
}

class GrpcServer final : public RpcServer {
 public:
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const std::string& address,
                                                          const RpcServerOptions& options,
                                                          const CallGuard& guard,
                                                          std::unique_ptr<grpc::Service> service,
                                                          std::unique_ptr<grpc::Service> probe) {
    LONGWAVE_ASSIGN_OR_RETURN(const std::string host, CheckListenAddress(address));
    static const bool plugins_set = [] {
      grpc::EnableDefaultHealthCheckService(true);
      grpc::reflection::InitProtoReflectionServerBuilderPlugin();
      return true;
    }();
    static_cast<void>(plugins_set);

    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, ServerCredentials(options.credentials), &port);
    if (!options.credentials.empty()) {
      BoundStrangers(options, builder);
      guard.HearCalls(builder);
    }
    // With it, two processes could listen on one port, each getting some of the calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    // Clients of ours ask every ten seconds whether the connection still stands.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
    // Calls are short and few; they need no more threads than this.
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
    builder.RegisterService(service.get());
    builder.RegisterService(probe.get());
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (server == nullptr || port == 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", address, ": gRPC could not open the port"));
    }
    guard.WatchAddress({HostsOf(address), static_cast<uint16_t>(port)});
    return std::unique_ptr<RpcServer>(new GrpcServer(
        absl::StrCat(host, ":", port), std::move(service), std::move(probe), std::move(server)));
  }

  ~GrpcServer() override { Shutdown(); }

  std::string address() const override { return address_; }

  void Shutdown() override {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
    server_->Wait();
  }

 private:
  static void BoundStrangers(const RpcServerOptions& options, grpc::ServerBuilder& builder) {
    const auto milliseconds = [](absl::Duration duration) {
      return static_cast<int>(absl::ToInt64Milliseconds(duration));
    };
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               milliseconds(kHandshakeTimeMax));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsMax);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               milliseconds(options.connection_age_max));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                               milliseconds(kHandshakeTimeMax));
    builder.SetResourceQuota(grpc::ResourceQuota("longwave").Resize(kServerBytesMax));
  }

  GrpcServer(std::string address, std::unique_ptr<grpc::Service> service,
             std::unique_ptr<grpc::Service> probe, std::unique_ptr<grpc::Server> server)
      : address_(std::move(address)),
        service_(std::move(service)),
        probe_(std::move(probe)),
        server_(std::move(server)) {}

  const std::string address_;
  // They outlive the server that calls them.
  const std::unique_ptr<grpc::Service> service_;
  const std::unique_ptr<grpc::Service> probe_;
  const std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const std::string& address,
                                                            CoordinatorHandler* handler,
                                                            const RpcServerOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(CallGuard guard, GuardOf(options));
  guard.SetAdmit([handler](const CertificateInfo& caller) { return handler->Admit(caller); });
  return GrpcServer::Start(address, options, guard, MakeCoordinatorService(handler, guard),
                           MakeProbeService(guard));
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const std::string& address,
                                                            ShardHandler* handler,
                                                            const RpcServerOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(CallGuard guard, GuardOf(options));
  guard.SetAdmit([handler](const CertificateInfo& caller) { return handler->Admit(caller); });
  return GrpcServer::Start(address, options, guard, MakeShardService(handler, guard),
                           MakeProbeService(guard));
}

}  // namespace longwave
