#include "tests/support/shard_client.h"

#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/convert.h"
#include "common/rpc/tls.h"
#include "longwave/v1/shard.grpc.pb.h"

namespace longwave {
namespace {

class GrpcShardClient final : public ShardClient {
 public:
  GrpcShardClient(const std::string& address, absl::Duration deadline,
                  const std::string& credentials)
      : channel_("the shard", address, deadline, ClientCredentials(credentials, Role::kShard)),
        stub_(v1::ShardService::NewStub(channel_.grpc())) {}

  absl::StatusOr<ShardReport> GetStatus() override {
    v1::GetShardStatusResponse response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke([&](grpc::ClientContext* context) {
      return stub_->GetShardStatus(context, v1::GetShardStatusRequest(), &response);
    }));
    return FromProto(response);
  }

 private:
  const Channel channel_;
  const std::unique_ptr<v1::ShardService::Stub> stub_;
};

}  // namespace

std::unique_ptr<ShardClient> ShardClient::Connect(const std::string& address,
                                                  absl::Duration deadline,
                                                  const std::string& credentials) {
  return std::make_unique<GrpcShardClient>(address, deadline, credentials);
}

}  // namespace longwave
