#include "common/rpc/coordinator_client.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/rpc/channel.h"
#include "common/rpc/convert.h"
#include "longwave/v1/coordinator.grpc.pb.h"

namespace longwave {
namespace {

class GrpcCoordinatorClient final : public CoordinatorClient {
 public:
  GrpcCoordinatorClient(const std::string& address, absl::Duration deadline)
      : channel_("the coordinator", address, deadline),
        stub_(v1::Coordinator::NewStub(channel_.grpc())) {}

  absl::StatusOr<uint32_t> Register(const RegisterWorker& request) override {
    if (FindInvalidUtf8(request.name) != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("worker name ", Quotable(request.name), ", wanted UTF-8"));
    }
    v1::RegisterWorkerResponse response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke([&](grpc::ClientContext* context) {
      return stub_->RegisterWorker(context, ToProto(request), &response);
    }));
    return response.worker();
  }

  absl::StatusOr<ShardRegistration> Register(const RegisterShard& request) override {
    v1::RegisterShardResponse response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke([&](grpc::ClientContext* context) {
      return stub_->RegisterShard(context, ToProto(request), &response);
    }));
    return FromProto(response);
  }

  absl::StatusOr<WorkerHeartbeatReply> Heartbeat(const WorkerHeartbeat& heartbeat) override {
    v1::WorkerHeartbeatResponse response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke([&](grpc::ClientContext* context) {
      return stub_->WorkerHeartbeat(context, ToProto(heartbeat), &response);
    }));
    return FromProto(response);
  }

  absl::StatusOr<ShardHeartbeatReply> Heartbeat(const ShardHeartbeat& heartbeat) override {
    v1::ShardHeartbeatResponse response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke([&](grpc::ClientContext* context) {
      return stub_->ShardHeartbeat(context, ToProto(heartbeat), &response);
    }));
    return FromProto(response);
  }

  absl::StatusOr<RunStatus> GetStatus(uint64_t round_records_from) override {
    v1::GetStatusRequest request;
    request.set_round_records_from(round_records_from);
    v1::GetStatusResponse response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke([&](grpc::ClientContext* context) {
      return stub_->GetStatus(context, request, &response);
    }));
    return FromProto(response);
  }

  absl::Status StopRun(const std::string& reason) override {
    v1::StopRunRequest request;
    request.set_reason(Utf8Prefix(reason, kSentenceBytesMax));
    v1::StopRunResponse response;
    return channel_.Invoke(
        [&](grpc::ClientContext* context) { return stub_->StopRun(context, request, &response); });
  }

 private:
  const Channel channel_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
};

}  // namespace

std::unique_ptr<CoordinatorClient> CoordinatorClient::Connect(const std::string& address,
                                                              absl::Duration deadline) {
  return std::make_unique<GrpcCoordinatorClient>(address, deadline);
}

}  // namespace longwave
