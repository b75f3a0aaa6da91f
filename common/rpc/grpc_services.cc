#include "common/rpc/grpc_services.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/convert.h"
#include "common/rpc/guarded_service.h"
#include "longwave/v1/coordinator.grpc.pb.h"
#include "longwave/v1/shard.grpc.pb.h"

namespace longwave {
namespace {

constexpr size_t kJoinBytesMax = 16 << 10;

CallRights Only(Identity subject) { return {CallKind::kSubject, std::move(subject)}; }

// Reads the request, lets `handle` answer, and passes on an error.
template <typename Request, typename Handle>
grpc::Status Answer(const Request& request, const Handle& handle) {
  auto value = FromProto(request);
  if (!value.ok()) return ToGrpc(value.status());
  return ToGrpc(handle(*value));
}

class CoordinatorGrpc final : public GuardedService<v1::Coordinator::Service> {
 public:
  CoordinatorGrpc(CoordinatorHandler* handler, CallGuard guard)
      : handler_(handler), guard_(std::move(guard)) {
    ServeMembers();
    ServeWhoJoins();
    ServeOperators();
  }

 private:
  using Context = grpc::ServerContext;

  void ServeMembers() {
    // The request has the name that the call is made for, so it is read from any member.
    Serve<v1::RegisterWorkerRequest, v1::RegisterWorkerResponse>(
        "RegisterWorker", guard_.By("RegisterWorker", CallKind::kMember),
        [this](const Context& context, const auto& request, auto* response) {
          const CallRights rights = Only(WorkerIdentity(request.name()));
          return Checked(context, "RegisterWorker", rights, [&] {
            return Answer(request, [&](const longwave::RegisterWorker& value) -> absl::Status {
              LONGWAVE_ASSIGN_OR_RETURN(const uint32_t worker, handler_->Register(value));
              response->set_worker(worker);
              return absl::OkStatus();
            });
          });
        });
    Serve<v1::RegisterShardRequest, v1::RegisterShardResponse>(
        "RegisterShard", guard_.By("RegisterShard", CallKind::kMember),
        [this](const Context& context, const auto& request, auto* response) {
          const CallRights rights = Only(ShardIdentity(request.shard()));
          return Checked(context, "RegisterShard", rights, [&] {
            return Answer(request, [&](const longwave::RegisterShard& value) -> absl::Status {
              LONGWAVE_ASSIGN_OR_RETURN(const ShardRegistration answer, handler_->Register(value));
              *response = ToProto(answer);
              return absl::OkStatus();
            });
          });
        });
    Serve<v1::WorkerHeartbeatRequest, v1::WorkerHeartbeatResponse>(
        "WorkerHeartbeat", guard_.By("WorkerHeartbeat", CallKind::kMember),
        [this](const Context& context, const auto& request, auto* response) {
          // A caller with an unknown worker's index gets NotFound.
          const std::string name = guard_.is_on() ? handler_->WorkerName(request.worker()) : "";
          const CallRights rights =
              name.empty() ? CallRights{CallKind::kMember, {}} : Only(WorkerIdentity(name));
          return Checked(context, "WorkerHeartbeat", rights, [&] {
            return Answer(request, [&](const longwave::WorkerHeartbeat& value) -> absl::Status {
              LONGWAVE_ASSIGN_OR_RETURN(const WorkerHeartbeatReply reply,
                                        handler_->Heartbeat(value));
              *response = ToProto(reply);
              return absl::OkStatus();
            });
          });
        });
    Serve<v1::ShardHeartbeatRequest, v1::ShardHeartbeatResponse>(
        "ShardHeartbeat", guard_.By("ShardHeartbeat", CallKind::kMember),
        [this](const Context& context, const auto& request, auto* response) {
          const CallRights rights = Only(ShardIdentity(request.shard()));
          return Checked(context, "ShardHeartbeat", rights, [&] {
            return Answer(request, [&](const longwave::ShardHeartbeat& value) -> absl::Status {
              LONGWAVE_ASSIGN_OR_RETURN(const ShardHeartbeatReply reply,
                                        handler_->Heartbeat(value));
              *response = ToProto(reply);
              return absl::OkStatus();
            });
          });
        });
    Serve<v1::GetStatusRequest, v1::GetStatusResponse>(
        "GetStatus", guard_.By("GetStatus", CallKind::kMember),
        [this](const Context&, const auto& request, auto* response) -> grpc::Status {
          const auto status = handler_->GetStatus(request.round_records_from());
          if (!status.ok()) return ToGrpc(status.status());
          *response = ToProto(*status);
          return grpc::Status::OK;
        });
    Serve<v1::GetRunRequest, v1::GetRunResponse>(
        "GetRun", guard_.By("GetRun", CallKind::kMember),
        [this](const Context&, const auto&, auto* response) -> grpc::Status {
          const auto run = handler_->GetRun();
          if (!run.ok()) return ToGrpc(run.status());
          *response = ToProto(*run);
          return grpc::Status::OK;
        });
    Serve<v1::RenewCertificateRequest, v1::RenewCertificateResponse>(
        "RenewCertificate", guard_.By("RenewCertificate", CallKind::kMember),
        [this](const Context& context, const auto& request, auto* response) -> grpc::Status {
          CertificateInfo caller;
          const CallRights rights{CallKind::kMember, {}};
          if (absl::Status status = guard_.Check(context, "RenewCertificate", rights, &caller);
              !status.ok())
            return ToGrpc(status);
          auto certificate = handler_->RenewCertificate(caller, request.request());
          if (!certificate.ok()) return ToGrpc(certificate.status());
          response->set_certificate(*std::move(certificate));
          return grpc::Status::OK;
        });
  }

  void ServeWhoJoins() {
    Serve<v1::GetAuthorityRequest, v1::GetAuthorityResponse>(
        "GetAuthority", guard_.By("GetAuthority", CallKind::kAnyone),
        [this](const Context&, const auto&, auto* response) -> grpc::Status {
          auto authority = handler_->GetAuthority();
          if (!authority.ok()) return ToGrpc(authority.status());
          response->set_authority(*std::move(authority));
          return grpc::Status::OK;
        });
    Serve<v1::JoinRequest, v1::JoinResponse>(
        "Join",
        [this](const Context& context) {
          guard_.Check(context, "Join", {CallKind::kAnyone, {}}).IgnoreError();
          return NotedToken(context, handler_->CheckToken(TokenOf(context)));
        },
        [this](const Context& context, const auto& request, auto* response) -> grpc::Status {
          if (const size_t bytes = request.ByteSizeLong(); bytes > kJoinBytesMax) {
            return ToGrpc(absl::InvalidArgumentError(absl::StrCat(
                "request to join: got ", bytes, " bytes, wanted at most ", kJoinBytesMax)));
          }
          auto wish = FromProto(request);
          if (!wish.ok()) return ToGrpc(wish.status());
          wish->token = TokenOf(context);
          auto answer = handler_->Join(*wish);
          if (!answer.ok()) return ToGrpc(NotedToken(context, answer.status()));
          *response = ToProto(*answer);
          return grpc::Status::OK;
        });
  }

  void ServeOperators() {
    const auto by_operator = [this](const char* call) {
      return guard_.By(call, CallKind::kOperator);
    };
    Serve<v1::StopRunRequest, v1::StopRunResponse>(
        "StopRun", by_operator("StopRun"), [this](const Context&, const auto& request, auto*) {
          constexpr size_t kBytesMax = 1 << 16;
          if (request.reason().size() > kBytesMax) {
            return ToGrpc(absl::InvalidArgumentError(absl::StrCat(
                "reason: got ", request.reason().size(), " bytes, wanted at most ", kBytesMax)));
          }
          return ToGrpc(handler_->StopRun(request.reason()));
        });
    Serve<v1::CreateTokenRequest, v1::CreateTokenResponse>(
        "CreateToken", by_operator("CreateToken"),
        [this](const Context&, const auto& request, auto* response) {
          return Answer(request, [&](const TokenWish& wish) -> absl::Status {
            LONGWAVE_ASSIGN_OR_RETURN(const NewToken token, handler_->CreateToken(wish));
            response->set_token(token.token);
            response->set_id(token.id);
            return absl::OkStatus();
          });
        });
    Serve<v1::ListTokensRequest, v1::ListTokensResponse>(
        "ListTokens", by_operator("ListTokens"),
        [this](const Context&, const auto&, auto* response) -> grpc::Status {
          const auto list = handler_->ListTokens();
          if (!list.ok()) return ToGrpc(list.status());
          *response = ToProto(*list);
          return grpc::Status::OK;
        });
    Serve<v1::RevokeTokenRequest, v1::RevokeTokenResponse>(
        "RevokeToken", by_operator("RevokeToken"),
        [this](const Context&, const auto& request, auto*) {
          return ToGrpc(handler_->RevokeToken(request.id()));
        });
    Serve<v1::ExpelRequest, v1::ExpelResponse>(
        "Expel", by_operator("Expel"),
        [this](const Context&, const auto& request, auto* response) -> grpc::Status {
          const auto expulsion = handler_->Expel(request.worker(), request.undo(), request.whole());
          if (!expulsion.ok()) return ToGrpc(expulsion.status());
          *response = ToProto(*expulsion);
          return grpc::Status::OK;
        });
  }

  template <typename Handle>
  grpc::Status Checked(const Context& context, const char* call, const CallRights& rights,
                       const Handle& handle) {
    const absl::Status status = guard_.Check(context, call, rights);
    return status.ok() ? handle() : ToGrpc(status);
  }

  static std::string TokenOf(const Context& context) {
    const auto found = context.client_metadata().find(kTokenKey);
    return found == context.client_metadata().end()
               ? ""
               : std::string(found->second.data(), found->second.size());
  }
  absl::Status NotedToken(const Context& context, absl::Status status) const {
    if (!status.ok()) guard_.Note(context, Refusal::kToken, status.message());
    return status;
  }

  CoordinatorHandler* const handler_;
  const CallGuard guard_;
};

class ShardGrpc final : public GuardedService<v1::ShardService::Service> {
 public:
  ShardGrpc(ShardHandler* handler, CallGuard guard) : handler_(handler), guard_(std::move(guard)) {
    Serve<v1::GetShardStatusRequest, v1::GetShardStatusResponse>(
        "GetShardStatus", guard_.By("GetShardStatus", CallKind::kMember),
        [this](const grpc::ServerContext&, const auto&, auto* response) -> grpc::Status {
          const auto report = handler_->GetStatus();
          if (!report.ok()) return ToGrpc(report.status());
          *response = ToProto(*report);
          return grpc::Status::OK;
        });
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

absl::StatusOr<RunDescription> CoordinatorHandler::GetRun() {
  return absl::UnimplementedError("this coordinator describes no run");
}
std::string CoordinatorHandler::WorkerName(uint32_t) { return ""; }
std::optional<CallRefusal> CoordinatorHandler::Admit(const CertificateInfo&) {
  return std::nullopt;
}
std::optional<CallRefusal> ShardHandler::Admit(const CertificateInfo&) { return std::nullopt; }
absl::StatusOr<std::string> CoordinatorHandler::GetAuthority() { return NotSecured(); }
absl::Status CoordinatorHandler::CheckToken(const std::string&) { return NotSecured(); }
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
