#include "common/rpc/coordinator_client.h"

#include "common/base/errors.h"
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
      return InvalidArgument("worker name ", Quotable(request.name), ", wanted UTF-8");
    }
    LONGWAVE_ASSIGN_OR_RETURN(const auto response, Call(&Stub::RegisterWorker, ToProto(request)));
    return response.worker();
  }

  absl::StatusOr<ShardRegistration> Register(const RegisterShard& request) override {
    return Read(Call(&Stub::RegisterShard, ToProto(request)));
  }

  absl::StatusOr<WorkerHeartbeatReply> Heartbeat(const WorkerHeartbeat& heartbeat) override {
    return Read(Call(&Stub::WorkerHeartbeat, ToProto(heartbeat)));
  }

  absl::StatusOr<ShardHeartbeatReply> Heartbeat(const ShardHeartbeat& heartbeat) override {
    return Read(Call(&Stub::ShardHeartbeat, ToProto(heartbeat)));
  }

  absl::StatusOr<RunStatus> GetStatus(uint64_t round_records_from) override {
    v1::GetStatusRequest request;
    request.set_round_records_from(round_records_from);
    return Read(Call(&Stub::GetStatus, request));
  }

  absl::Status StopRun(const std::string& reason) override {
    v1::StopRunRequest request;
    request.set_reason(Utf8Prefix(reason, v1::SENTENCE));
    return Call(&Stub::StopRun, request).status();
  }

  absl::StatusOr<RunDescription> GetRun() override {
    return Read(Call(&Stub::GetRun, v1::GetRunRequest()));
  }

  absl::StatusOr<std::string> RenewCertificate(const std::string& text) override {
    v1::RenewCertificateRequest request;
    request.set_request(text);
    LONGWAVE_ASSIGN_OR_RETURN(const auto response, Call(&Stub::RenewCertificate, request));
    return response.certificate();
  }

  absl::StatusOr<NewToken> CreateToken(const TokenWish& wish) override {
    LONGWAVE_ASSIGN_OR_RETURN(const v1::CreateTokenRequest request, ToProto(wish));
    return Read(Call(&Stub::CreateToken, request));
  }

  absl::StatusOr<TokenList> ListTokens() override {
    return Read(Call(&Stub::ListTokens, v1::ListTokensRequest()));
  }

  absl::Status RevokeToken(const std::string& id) override {
    v1::RevokeTokenRequest request;
    request.set_id(id);
    return Call(&Stub::RevokeToken, request).status();
  }

  absl::StatusOr<Expulsion> Expel(const std::string& worker, bool undo, bool whole) override {
    v1::ExpelRequest request;
    request.set_worker(worker);
    request.set_undo(undo);
    request.set_whole(whole);
    return Read(Call(&Stub::Expel, request));
  }

 private:
  using Stub = v1::Coordinator::Stub;

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*call)(grpc::ClientContext*, const Request&,
                                                           Response*),
                                const Request& request) const {
    Response response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke(
        [&](grpc::ClientContext* context) { return ((*stub_).*call)(context, request, &response); },
        request.ByteSizeLong()));
    return response;
  }

  // The record that a response carries.
  template <typename Response>
  static auto Read(const absl::StatusOr<Response>& response) -> decltype(FromProto(*response)) {
    LONGWAVE_RETURN_IF_ERROR(response.status());
    return FromProto(*response);
  }

  const Channel channel_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
};

}  // namespace

std::unique_ptr<CoordinatorClient> CoordinatorClient::Connect(const std::string& address,
                                                              absl::Duration deadline,
                                                              const std::string& credentials) {
  return std::make_unique<GrpcCoordinatorClient>(address, deadline, credentials);
}

}  // namespace longwave
