#include "common/rpc/rpc_server.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/listener.h"
#include "common/base/memory.h"
#include "common/base/status_macros.h"
#include "common/rpc/call_guard.h"
#include "common/rpc/caller_bounds.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_services.h"
#include "common/rpc/tls.h"
#include "common/security/credentials.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"

namespace longwave {
namespace {

constexpr absl::Duration kHandshakeTimeMax = absl::Seconds(5);

absl::StatusOr<CallGuard> GuardOf(const RpcServerOptions& options) {
  if (options.credentials.empty()) return CallGuard();
  LONGWAVE_RETURN_IF_ERROR(ReadCredentials(options.credentials).status());
  LONGWAVE_ASSIGN_OR_RETURN(
      std::unique_ptr<CallerBook> book,
      CallerBook::Open(absl::StrCat(options.credentials, "/", kAuthorityFile)));
  return CallGuard(std::move(book), options.refusals);
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

// A server without gRPC's health and reflection services.
class NoOpenServices final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* arguments) override {
    arguments->SetPointer(grpc::kHealthCheckServiceInterfaceArg, nullptr);
  }
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }
};

class GrpcServer final : public RpcServer {
 public:
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const std::string& address,
                                                          const RpcServerOptions& options,
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
    LONGWAVE_ASSIGN_OR_RETURN(const MachineMemory machine, ReadMachineMemory());
    BoundCallers(CallBytesMax(machine.total_bytes), kHandshakeTimeMax, builder);
    if (!options.credentials.empty()) {
      builder.SetOption(std::make_unique<NoOpenServices>());
      BoundConnectionAge(options.connection_age_max, builder);
    }
    // With port reuse two processes could listen on one port, and each would get some of the calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    // Our clients send a keepalive ping every few seconds.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
    // Calls are short and few, so these threads suffice.
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
    builder.RegisterService(service.get());
    builder.RegisterService(probe.get());
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (server == nullptr || port == 0) {
      return Unavailable("cannot listen on ", address, ": gRPC could not open the port");
    }
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
  static void BoundConnectionAge(absl::Duration age_max, grpc::ServerBuilder& builder) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Milliseconds(age_max));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                               Milliseconds(kHandshakeTimeMax));
  }

  GrpcServer(std::string address, std::unique_ptr<grpc::Service> service,
             std::unique_ptr<grpc::Service> probe, std::unique_ptr<grpc::Server> server)
      : address_(std::move(address)),
        service_(std::move(service)),
        probe_(std::move(probe)),
        server_(std::move(server)) {}

  const std::string address_;
  // The services outlive the server that calls them.
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
  guard.SetTokenCheck([handler](const std::string& token) { return handler->CheckToken(token); });
  return GrpcServer::Start(address, options, MakeCoordinatorService(handler, guard),
                           MakeProbeService(guard));
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const std::string& address,
                                                            ShardHandler* handler,
                                                            const RpcServerOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(CallGuard guard, GuardOf(options));
  guard.SetAdmit([handler](const CertificateInfo& caller) { return handler->Admit(caller); });
  return GrpcServer::Start(address, options, MakeShardService(handler, guard),
                           MakeProbeService(guard));
}

}  // namespace longwave
