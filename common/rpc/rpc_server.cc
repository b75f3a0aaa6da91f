#include "common/rpc/rpc_server.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/convert.h"
#include "common/rpc/listen_check.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "longwave/v1/coordinator.grpc.pb.h"
#include "longwave/v1/shard.grpc.pb.h"

namespace longwave {
namespace {

// Reads the request, lets `handle` answer it and passes the error on, if there is one.
template <typename Request, typename Handle>
grpc::Status Answer(const Request& request, const Handle& handle) {
  auto value = FromProto(request);
  if (!value.ok()) return ToGrpc(value.status());
  return ToGrpc(handle(*value));
}

class CoordinatorGrpc final : public v1::Coordinator::Service {
 public:
  explicit CoordinatorGrpc(CoordinatorHandler* handler) : handler_(handler) {}

  grpc::Status RegisterWorker(grpc::ServerContext*, const v1::RegisterWorkerRequest* request,
                              v1::RegisterWorkerResponse* response) override {
    return Answer(*request, [&](const longwave::RegisterWorker& value) -> absl::Status {
      LONGWAVE_ASSIGN_OR_RETURN(const uint32_t worker, handler_->Register(value));
      response->set_worker(worker);
      return absl::OkStatus();
    });
  }

  grpc::Status RegisterShard(grpc::ServerContext*, const v1::RegisterShardRequest* request,
                             v1::RegisterShardResponse* response) override {
    return Answer(*request, [&](const longwave::RegisterShard& value) -> absl::Status {
      LONGWAVE_ASSIGN_OR_RETURN(const ShardRegistration answer, handler_->Register(value));
      *response = ToProto(answer);
      return absl::OkStatus();
    });
  }

  grpc::Status WorkerHeartbeat(grpc::ServerContext*, const v1::WorkerHeartbeatRequest* request,
                               v1::WorkerHeartbeatResponse* response) override {
    return Answer(*request, [&](const longwave::WorkerHeartbeat& value) -> absl::Status {
      LONGWAVE_ASSIGN_OR_RETURN(const WorkerHeartbeatReply reply, handler_->Heartbeat(value));
      *response = ToProto(reply);
      return absl::OkStatus();
    });
  }

  grpc::Status ShardHeartbeat(grpc::ServerContext*, const v1::ShardHeartbeatRequest* request,
                              v1::ShardHeartbeatResponse* response) override {
    return Answer(*request, [&](const longwave::ShardHeartbeat& value) -> absl::Status {
      LONGWAVE_ASSIGN_OR_RETURN(const ShardHeartbeatReply reply, handler_->Heartbeat(value));
      *response = ToProto(reply);
      return absl::OkStatus();
    });
  }

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override {
    const auto status = handler_->GetStatus(request->round_records_from());
    if (!status.ok()) return ToGrpc(status.status());
    *response = ToProto(*status);
    return grpc::Status::OK;
  }

  grpc::Status StopRun(grpc::ServerContext*, const v1::StopRunRequest* request,
                       v1::StopRunResponse*) override {
    if (request->reason().size() > static_cast<size_t>(kTextBytesMax)) {
      return ToGrpc(absl::InvalidArgumentError(absl::StrCat(
          "reason: got ", request->reason().size(), " bytes, wanted at most ", kTextBytesMax)));
    }
    return ToGrpc(handler_->StopRun(request->reason()));
  }

 private:
  CoordinatorHandler* const handler_;
};

class ShardGrpc final : public v1::ShardService::Service {
 public:
  explicit ShardGrpc(ShardHandler* handler) : handler_(handler) {}

  grpc::Status GetShardStatus(grpc::ServerContext*, const v1::GetShardStatusRequest*,
                              v1::GetShardStatusResponse* response) override {
    const auto report = handler_->GetStatus();
    if (!report.ok()) return ToGrpc(report.status());
    *response = ToProto(*report);
    return grpc::Status::OK;
  }

 private:
  ShardHandler* const handler_;
};

class GrpcServer final : public RpcServer {
 public:
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const std::string& address,
                                                          std::unique_ptr<grpc::Service> service) {
    LONGWAVE_ASSIGN_OR_RETURN(const std::string host, CheckListenAddress(address));
    static const bool plugins_set = [] {
      grpc::EnableDefaultHealthCheckService(true);
      grpc::reflection::InitProtoReflectionServerBuilderPlugin();
      return true;
    }();
    static_cast<void>(plugins_set);

    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    // With it, two processes could listen on one port, each getting some of the calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    // Calls are short and few; they need no more threads than this.
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
    builder.RegisterService(service.get());
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (server == nullptr || port == 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", address, ": gRPC could not open the port"));
    }
    return std::unique_ptr<RpcServer>(
        new GrpcServer(absl::StrCat(host, ":", port), std::move(service), std::move(server)));
  }

  ~GrpcServer() override { Shutdown(); }

  std::string address() const override { return address_; }

  void Shutdown() override {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
    server_->Wait();
  }

 private:
  GrpcServer(std::string address, std::unique_ptr<grpc::Service> service,
             std::unique_ptr<grpc::Server> server)
      : address_(std::move(address)), service_(std::move(service)), server_(std::move(server)) {}

  const std::string address_;
  const std::unique_ptr<grpc::Service> service_;  // outlives the server that calls it
  const std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const std::string& address,
                                                            CoordinatorHandler* handler) {
  return GrpcServer::Start(address, std::make_unique<CoordinatorGrpc>(handler));
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const std::string& address,
                                                            ShardHandler* handler) {
  return GrpcServer::Start(address, std::make_unique<ShardGrpc>(handler));
}

}  // namespace longwave
