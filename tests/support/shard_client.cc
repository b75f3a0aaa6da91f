#include "tests/support/shard_client.h"

#include "common/rpc/grpc_client.h"
#include "common/rpc/tls.h"
#include "longwave/v1/shard.rpc.h"

namespace longwave {

std::unique_ptr<ShardClient> ShardClient::Connect(const std::string& address,
                                                  absl::Duration deadline,
                                                  const std::string& credentials) {
  return std::make_unique<ShardServiceStub<GrpcClient<v1::ShardService, ShardClient>>>(
      "the shard", address, deadline, ClientCredentials(credentials, Role::kShard));
}

}  // namespace longwave
