#include "common/rpc/grpc_services.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/convert.h"
#include "longwave/v1/coordinator.grpc.pb.h"
#include "longwave/v1/shard.grpc.pb.h"

namespace longwave {
namespace {

CallRights ByAnyone() { return {CallKind::kAnyone, {}}; }
CallRights ByMember() { return {CallKind::kMember, {}}; }
CallRights ByOperator() { return {CallKind::kOperator, {}}; }
CallRights Only(Identity subject) { return {CallKind::kSubject, std::move(subject)}; }

// Reads the request, lets `handle` answer it and passes the error on, if there is one.
template <typename Request, typename Handle>
grpc::Status Answer(const Request& request, const Handle& handle) {
  auto value = FromProto(request);
  if (!value.ok()) return ToGrpc(value.status());
  return ToGrpc(handle(*value));
}

class CoordinatorGrpc final : public v1::Coordinator::Service {
 public:
  CoordinatorGrpc(CoordinatorHandler* handler, CallGuard guard)
      : handler_(handler), guard_(std::move(guard)) {}

  grpc::Status RegisterWorker(grpc::ServerContext* context,
                              const v1::RegisterWorkerRequest* request,
                              v1::RegisterWorkerResponse* response) override {
    return Checked(context, "RegisterWorker", Only(WorkerIdentity(request->name())), [&] {
      return Answer(*request, [&](const longwave::RegisterWorker& value) -> absl::Status {
        LONGWAVE_ASSIGN_OR_RETURN(const uint32_t worker, handler_->Register(value));
        response->set_worker(worker);
        return absl::OkStatus();
      });
    });
  }

  grpc::Status RegisterShard(grpc::ServerContext* context, const v1::RegisterShardRequest* request,
                             v1::RegisterShardResponse* response) override {
    return Checked(context, "RegisterShard", Only(ShardIdentity(request->shard())), [&] {
      return Answer(*request, [&](const longwave::RegisterShard& value) -> absl::Status {
        LONGWAVE_ASSIGN_OR_RETURN(const ShardRegistration answer, handler_->Register(value));
        *response = ToProto(answer);
        return absl::OkStatus();
      });
    });
  }

  grpc::Status WorkerHeartbeat(grpc::ServerContext* context,
                               const v1::WorkerHeartbeatRequest* request,
                               v1::WorkerHeartbeatResponse* response) override {
    // Whoever calls as a worker that is not there is told so, if he is anybody.
    const std::string name = guard_.is_on() ? handler_->WorkerName(request->worker()) : "";
    return Checked(
        context, "WorkerHeartbeat", name.empty() ? ByMember() : Only(WorkerIdentity(name)), [&] {
          return Answer(*request, [&](const longwave::WorkerHeartbeat& value) -> absl::Status {
            LONGWAVE_ASSIGN_OR_RETURN(const WorkerHeartbeatReply reply, handler_->Heartbeat(value));
            *response = ToProto(reply);
            return absl::OkStatus();
          });
        });
  }

  grpc::Status ShardHeartbeat(grpc::ServerContext* context,
                              const v1::ShardHeartbeatRequest* request,
                              v1::ShardHeartbeatResponse* response) override {
    return Checked(context, "ShardHeartbeat", Only(ShardIdentity(request->shard())), [&] {
      return Answer(*request, [&](const longwave::ShardHeartbeat& value) -> absl::Status {
        LONGWAVE_ASSIGN_OR_RETURN(const ShardHeartbeatReply reply, handler_->Heartbeat(value));
        *response = ToProto(reply);
        return absl::OkStatus();
      });
    });
  }

  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override {
    return Checked(context, "GetStatus", ByMember(), [&]() -> grpc::Status {
      const auto status = handler_->GetStatus(request->round_records_from());
      if (!status.ok()) return ToGrpc(status.status());
      *response = ToProto(*status);
      return grpc::Status::OK;
    });
  }

  grpc::Status StopRun(grpc::ServerContext* context, const v1::StopRunRequest* request,
                       v1::StopRunResponse*) override {
    return Checked(context, "StopRun", ByOperator(), [&] {
      if (request->reason().size() > static_cast<size_t>(kTextBytesMax)) {
        return ToGrpc(absl::InvalidArgumentError(absl::StrCat(
            "reason: got ", request->reason().size(), " bytes, wanted at most ", kTextBytesMax)));
      }
      return ToGrpc(handler_->StopRun(request->reason()));
    });
  }

  grpc::Status GetAuthority(grpc::ServerContext* context, const v1::GetAuthorityRequest*,
                            v1::GetAuthorityResponse* response) override {
    return Checked(context, "GetAuthority", ByAnyone(), [&]() -> grpc::Status {
      auto authority = handler_->GetAuthority();
      if (!authority.ok()) return ToGrpc(authority.status());
      response->set_authority(*std::move(authority));
      return grpc::Status::OK;
    });
  }

  grpc::Status Join(grpc::ServerContext* context, const v1::JoinRequest* request,
                    v1::JoinResponse* response) override {
    return Checked(context, "Join", ByAnyone(), [&]() -> grpc::Status {
      auto wish = FromProto(*request);
      if (!wish.ok()) return ToGrpc(wish.status());
      auto answer = handler_->Join(*wish);
      if (!answer.ok()) {
        guard_.Note(*context, Refusal::kToken, answer.status().message());
        return ToGrpc(answer.status());
      }
      *response = ToProto(*answer);
      return grpc::Status::OK;
    });
  }

  grpc::Status RenewCertificate(grpc::ServerContext* context,
                                const v1::RenewCertificateRequest* request,
                                v1::RenewCertificateResponse* response) override {
    CertificateInfo caller;
    if (absl::Status status = guard_.Check(*context, "RenewCertificate", ByMember(), &caller);
        !status.ok())
      return ToGrpc(status);
    auto certificate = handler_->RenewCertificate(caller, request->request());
    if (!certificate.ok()) return ToGrpc(certificate.status());
    response->set_certificate(*std::move(certificate));
    return grpc::Status::OK;
  }

  grpc::Status CreateToken(grpc::ServerContext* context, const v1::CreateTokenRequest* request,
                           v1::CreateTokenResponse* response) override {
    return Checked(context, "CreateToken", ByOperator(), [&] {
      return Answer(*request, [&](const TokenWish& wish) -> absl::Status {
        LONGWAVE_ASSIGN_OR_RETURN(const NewToken token, handler_->CreateToken(wish));
        response->set_token(token.token);
        response->set_id(token.id);
        return absl::OkStatus();
      });
    });
  }

  grpc::Status ListTokens(grpc::ServerContext* context, const v1::ListTokensRequest*,
                          v1::ListTokensResponse* response) override {
    return Checked(context, "ListTokens", ByOperator(), [&]() -> grpc::Status {
      const auto list = handler_->ListTokens();
      if (!list.ok()) return ToGrpc(list.status());
      *response = ToProto(*list);
      return grpc::Status::OK;
    });
  }

  grpc::Status RevokeToken(grpc::ServerContext* context, const v1::RevokeTokenRequest* request,
                           v1::RevokeTokenResponse*) override {
    return Checked(context, "RevokeToken", ByOperator(),
                   [&] { return ToGrpc(handler_->RevokeToken(request->id())); });
  }

  grpc::Status Expel(grpc::ServerContext* context, const v1::ExpelRequest* request,
                     v1::ExpelResponse* response) override {
    return Checked(context, "Expel", ByOperator(), [&]() -> grpc::Status {
      const auto expulsion = handler_->Expel(request->worker(), request->undo(), request->whole());
      if (!expulsion.ok()) return ToGrpc(expulsion.status());
      *response = ToProto(*expulsion);
      return grpc::Status::OK;
    });
  }

 private:
  template <typename Handle>
  grpc::Status Checked(const grpc::ServerContext* context, const char* call,
                       const CallRights& rights, const Handle& handle) {
    const absl::Status status = guard_.Check(*context, call, rights);
    return status.ok() ? handle() : ToGrpc(status);
  }

  CoordinatorHandler* const handler_;
  const CallGuard guard_;
};

class ShardGrpc final : public v1::ShardService::Service {
 public:
  ShardGrpc(ShardHandler* handler, CallGuard guard) : handler_(handler), guard_(std::move(guard)) {}

  grpc::Status GetShardStatus(grpc::ServerContext* context, const v1::GetShardStatusRequest*,
                              v1::GetShardStatusResponse* response) override {
    const absl::Status status = guard_.Check(*context, "GetShardStatus", ByMember());
    if (!status.ok()) return ToGrpc(status);
    const auto report = handler_->GetStatus();
    if (!report.ok()) return ToGrpc(report.status());
    *response = ToProto(*report);
    return grpc::Status::OK;
  }

 private:
  ShardHandler* const handler_;
  const CallGuard guard_;
};

absl::Status NotSecured() {
  return absl::FailedPreconditionError(
      "this run is not secured (security.mode off, or auto on loopback): nobody needs a token or "
      "a certificate, and nobody can be kept out");
}

}  // namespace

std::string CoordinatorHandler::WorkerName(uint32_t) { return ""; }
std::optional<CallRefusal> CoordinatorHandler::Admit(const CertificateInfo&) {
  return std::nullopt;
}
std::optional<CallRefusal> ShardHandler::Admit(const CertificateInfo&) { return std::nullopt; }
absl::StatusOr<std::string> CoordinatorHandler::GetAuthority() { return NotSecured(); }
absl::StatusOr<JoinAnswer> CoordinatorHandler::Join(const JoinWish&) { return NotSecured(); }
absl::StatusOr<std::string> CoordinatorHandler::RenewCertificate(const CertificateInfo&,
                                                                 const std::string&) {
  return NotSecured();
}
absl::StatusOr<NewToken> CoordinatorHandler::CreateToken(const TokenWish&) { return NotSecured(); }
absl::StatusOr<TokenList> CoordinatorHandler::ListTokens() { return NotSecured(); }
absl::Status CoordinatorHandler::RevokeToken(const std::string&) { return NotSecured(); }
absl::StatusOr<Expulsion> CoordinatorHandler::Expel(const std::string&, bool, bool) {
  return NotSecured();
}

std::unique_ptr<grpc::Service> MakeCoordinatorService(CoordinatorHandler* handler,
                                                      CallGuard guard) {
  return std::make_unique<CoordinatorGrpc>(handler, std::move(guard));
}

std::unique_ptr<grpc::Service> MakeShardService(ShardHandler* handler, CallGuard guard) {
  return std::make_unique<ShardGrpc>(handler, std::move(guard));
}

}  // namespace longwave
