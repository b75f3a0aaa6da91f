#include "common/rpc/coordinator_client.h"

#include "common/rpc/grpc_client.h"
#include "common/rpc/tls.h"
#include "longwave/v1/coordinator.rpc.h"

namespace longwave {

std::unique_ptr<CoordinatorClient> ConnectToCoordinator(
    const std::string& address, absl::Duration deadline,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  return std::make_unique<CoordinatorStub<GrpcClient<v1::Coordinator, CoordinatorClient>>>(
      "the coordinator", address, deadline, credentials);
}

std::unique_ptr<CoordinatorClient> CoordinatorClient::Connect(const std::string& address,
                                                              absl::Duration deadline,
                                                              const std::string& credentials) {
  return ConnectToCoordinator(address, deadline,
                              ClientCredentials(credentials, Role::kCoordinator));
}

}  // namespace longwave
