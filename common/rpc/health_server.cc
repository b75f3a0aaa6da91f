#include "common/rpc/health_server.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/listener.h"
#include "common/base/status_macros.h"
#include "common/rpc/caller_bounds.h"
#include "common/rpc/tls.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"

namespace longwave {
namespace {

// A request is only a service's name.
constexpr int kRequestBytesMax = 4 << 10;
constexpr size_t kHealthCallBytesMax = 8 << 20;
constexpr absl::Duration kHandshakeTimeMax = absl::Seconds(5);

class GrpcHealthServer final : public HealthServer {
 public:
  GrpcHealthServer(std::string address, std::unique_ptr<grpc::ServerCompletionQueue> idle_queue,
                   std::unique_ptr<grpc::Server> server)
      : address_(std::move(address)),
        idle_queue_(std::move(idle_queue)),
        server_(std::move(server)) {
    LONGWAVE_CHECK(server_->GetHealthCheckService() != nullptr);
    SetReady(false);
  }

  ~GrpcHealthServer() override {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
    server_->Wait();
    idle_queue_->Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (idle_queue_->Next(&tag, &ok)) {
    }
  }

  std::string address() const override { return address_; }

  void SetReady(bool ready) override {
    server_->GetHealthCheckService()->SetServingStatus(kReadyService, ready);
  }

 private:
  const std::string address_;
  // gRPC builds no server without a queue or a service; this queue stays empty.
  const std::unique_ptr<grpc::ServerCompletionQueue> idle_queue_;
  const std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& address) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string host, CheckListenAddress(address));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, ServerCredentials(/*folder=*/""), &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kRequestBytesMax);
  BoundCallers(kHealthCallBytesMax, kHandshakeTimeMax, builder);
  std::unique_ptr<grpc::ServerCompletionQueue> idle_queue = builder.AddCompletionQueue();
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    if (server == nullptr) idle_queue->Shutdown();
    return Unavailable("cannot listen on ", address, ": gRPC could not open the port");
  }
  return std::make_unique<GrpcHealthServer>(absl::StrCat(host, ":", port), std::move(idle_queue),
                                            std::move(server));
}

}  // namespace longwave
