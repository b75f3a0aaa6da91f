#include "common/rpc/coordinator_client.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/rpc/channel.h"
#include "common/rpc/convert.h"
#include "common/rpc/tls.h"
#include "longwave/v1/coordinator.grpc.pb.h"

namespace longwave {
namespace {

class GrpcCoordinatorClient final : public CoordinatorClient {
 public:
  GrpcCoordinatorClient(const std::string& address, absl::Duration deadline,
                        const std::string& credentials)
      : channel_("the coordinator", address, deadline,
                 ClientCredentials(credentials, Role::kCoordinator)),
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
    request.set_reason(Utf8Prefix(reason, v1::SENTENCE));
    v1::StopRunResponse response;
    return channel_.Invoke(
        [&](grpc::ClientContext* context) { return stub_->StopRun(context, request, &response); });
  }

  absl::StatusOr<RunDescription> GetRun() override {
    v1::GetRunResponse response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke([&](grpc::ClientContext* context) {
      return stub_->GetRun(context, v1::GetRunRequest(), &response);
    }));
    return FromProto(response);
  }

  absl::StatusOr<std::string> RenewCertificate(const std::string& text) override {
    v1::RenewCertificateRequest request;
    request.set_request(text);
    v1::RenewCertificateResponse response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke([&](grpc::ClientContext* context) {
      return stub_->RenewCertificate(context, request, &response);
    }));
    return response.certificate();
  }

  absl::StatusOr<NewToken> CreateToken(const TokenWish& wish) override {
    v1::CreateTokenResponse response;
    LONGWAVE_ASSIGN_OR_RETURN(const v1::CreateTokenRequest request, ToProto(wish));
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke([&](grpc::ClientContext* context) {
      return stub_->CreateToken(context, request, &response);
    }));
    return NewToken{response.token(), response.id()};
  }

  absl::StatusOr<TokenList> ListTokens() override {
    v1::ListTokensResponse response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke([&](grpc::ClientContext* context) {
      return stub_->ListTokens(context, v1::ListTokensRequest(), &response);
    }));
    return FromProto(response);
  }

  absl::Status RevokeToken(const std::string& id) override {
    v1::RevokeTokenRequest request;
    request.set_id(id);
    v1::RevokeTokenResponse response;
    return channel_.Invoke([&](grpc::ClientContext* context) {
      return stub_->RevokeToken(context, request, &response);
    });
  }

  absl::StatusOr<Expulsion> Expel(const std::string& worker, bool undo, bool whole) override {
    v1::ExpelRequest request;
    request.set_worker(worker);
    request.set_undo(undo);
    request.set_whole(whole);
    v1::ExpelResponse response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke(
        [&](grpc::ClientContext* context) { return stub_->Expel(context, request, &response); }));
    return FromProto(response);
  }

 private:
  const Channel channel_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
};

absl::Status NotSecured() {
  return absl::FailedPreconditionError("this coordinator knows nothing of certificates and tokens");
}

}  // namespace

absl::StatusOr<RunDescription> CoordinatorClient::GetRun() {
  return absl::UnimplementedError("this coordinator describes no run");
}
absl::StatusOr<std::string> CoordinatorClient::RenewCertificate(const std::string&) {
  return NotSecured();
}
absl::StatusOr<NewToken> CoordinatorClient::CreateToken(const TokenWish&) { return NotSecured(); }
absl::StatusOr<TokenList> CoordinatorClient::ListTokens() { return NotSecured(); }
absl::Status CoordinatorClient::RevokeToken(const std::string&) { return NotSecured(); }
absl::StatusOr<Expulsion> CoordinatorClient::Expel(const std::string&, bool, bool) {
  return NotSecured();
}

std::unique_ptr<CoordinatorClient> CoordinatorClient::Connect(const std::string& address,
                                                              absl::Duration deadline,
                                                              const std::string& credentials) {
  return std::make_unique<GrpcCoordinatorClient>(address, deadline, credentials);
}

}  // namespace longwave
