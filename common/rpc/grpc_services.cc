#include "common/rpc/grpc_services.h"

#include <optional>
#include <type_traits>
#include <utility>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/convert.h"
#include "common/rpc/guarded_service.h"
#include "longwave/v1/coordinator.grpc.pb.h"
#include "longwave/v1/shard.grpc.pb.h"

namespace longwave {
namespace {

constexpr size_t kJoinBytesMax = 16 << 10;

absl::Status NotSecured() {
  return FailedPrecondition(
      "this run is not secured (security.mode off, or auto on loopback): nobody needs a token or "
      "a certificate, and nobody can be kept out");
}

CallRights Only(Identity subject) { return {CallKind::kSubject, std::move(subject)}; }

// Answers with what a handler gives, or its error.
template <typename T, typename Response>
grpc::Status Reply(const absl::StatusOr<T>& value, Response* response) {
  if (!value.ok()) return ToGrpc(value.status());
  if constexpr (std::is_same_v<T, Response>) {
    *response = *value;
  } else {
    *response = ToProto(*value);
  }
  return grpc::Status::OK;
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

  // As the guard's By, for a call that a run without security answers with an error.
  auto Secured(const char* call, CallKind kind) const {
    return [this, by = guard_.By(call, kind)](const Context& context) {
      return guard_.is_on() ? by(context) : NotSecured();
    };
  }

  // Serves a call that only the member that the request names may make: subject(request). A request
  // is read from any member, to see whom it names.
  template <typename Request, typename Response, typename Subject, typename Handle>
  void ServeSubject(const char* call, Subject subject, Handle handle) {
    Serve<Request, Response>(
        call, guard_.By(call, CallKind::kMember),
        [=, this](const Context& context, const Request& request, Response* response) {
          const absl::Status status = guard_.Check(context, call, subject(request));
          if (!status.ok()) return ToGrpc(status);
          const auto value = FromProto(request);
          return value.ok() ? Reply(handle(*value), response) : ToGrpc(value.status());
        });
  }

  void ServeMembers() {
    ServeSubject<v1::RegisterWorkerRequest, v1::RegisterWorkerResponse>(
        "RegisterWorker", [](const auto& request) { return Only(WorkerIdentity(request.name())); },
        [this](const auto& value) -> absl::StatusOr<v1::RegisterWorkerResponse> {
          v1::RegisterWorkerResponse response;
          LONGWAVE_ASSIGN_OR_RETURN(const uint32_t worker, handler_->Register(value));
          response.set_worker(worker);
          return response;
        });
    ServeSubject<v1::RegisterShardRequest, v1::RegisterShardResponse>(
        "RegisterShard", [](const auto& request) { return Only(ShardIdentity(request.shard())); },
        [this](const auto& value) { return handler_->Register(value); });
    ServeSubject<v1::WorkerHeartbeatRequest, v1::WorkerHeartbeatResponse>(
        "WorkerHeartbeat",
        [this](const auto& request) {
          // A caller with an unknown worker's index gets NotFound.
          const std::string name = guard_.is_on() ? handler_->WorkerName(request.worker()) : "";
          return name.empty() ? CallRights{CallKind::kMember, {}} : Only(WorkerIdentity(name));
        },
        [this](const auto& value) { return handler_->Heartbeat(value); });
    ServeSubject<v1::ShardHeartbeatRequest, v1::ShardHeartbeatResponse>(
        "ShardHeartbeat", [](const auto& request) { return Only(ShardIdentity(request.shard())); },
        [this](const auto& value) { return handler_->Heartbeat(value); });
    Serve<v1::GetStatusRequest, v1::GetStatusResponse>(
        "GetStatus", guard_.By("GetStatus", CallKind::kMember),
        [this](const Context&, const auto& request, auto* response) {
          return Reply(handler_->GetStatus(request.round_records_from()), response);
        });
    Serve<v1::GetRunRequest, v1::GetRunResponse>(
        "GetRun", guard_.By("GetRun", CallKind::kMember),
        [this](const Context&, const auto&, auto* response) {
          return Reply(handler_->GetRun(), response);
        });
    Serve<v1::RenewCertificateRequest, v1::RenewCertificateResponse>(
        "RenewCertificate", Secured("RenewCertificate", CallKind::kMember),
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
        "GetAuthority", Secured("GetAuthority", CallKind::kAnyone),
        [this](const Context&, const auto&, auto* response) -> grpc::Status {
          auto authority = handler_->GetAuthority();
          if (!authority.ok()) return ToGrpc(authority.status());
          response->set_authority(*std::move(authority));
          return grpc::Status::OK;
        });
    Serve<v1::JoinRequest, v1::JoinResponse>(
        "Join",
        [this](const Context& context) {
          if (!guard_.is_on()) return NotSecured();
          return NotedToken(context, handler_->CheckToken(TokenOf(context)));
        },
        [this](const Context& context, const auto& request, auto* response) -> grpc::Status {
          if (const size_t bytes = request.ByteSizeLong(); bytes > kJoinBytesMax) {
            return ToGrpc(InvalidArgument("request to join: got ", bytes, " bytes, wanted at most ",
                                          kJoinBytesMax));
          }
          auto wish = FromProto(request);
          if (!wish.ok()) return ToGrpc(wish.status());
          wish->token = TokenOf(context);
          const auto answer = handler_->Join(*wish);
          NotedToken(context, answer.status()).IgnoreError();
          return Reply(answer, response);
        });
  }

  // Serves a call about admission that only an operator may make.
  template <typename Request, typename Response, typename Answer>
  void ServeOperator(const char* call, Answer answer) {
    Serve<Request, Response>(call, Secured(call, CallKind::kOperator),
                             [=](const Context&, const Request& request, Response* response) {
                               return answer(request, response);
                             });
  }

  void ServeOperators() {
    Serve<v1::StopRunRequest, v1::StopRunResponse>(
        "StopRun", guard_.By("StopRun", CallKind::kOperator),
        [this](const Context&, const auto& request, auto*) {
          constexpr size_t kBytesMax = 1 << 16;
          if (request.reason().size() > kBytesMax) {
            return ToGrpc(InvalidArgument("reason: got ", request.reason().size(),
                                          " bytes, wanted at most ", kBytesMax));
          }
          return ToGrpc(handler_->StopRun(request.reason()));
        });
    ServeOperator<v1::CreateTokenRequest, v1::CreateTokenResponse>(
        "CreateToken", [this](const auto& request, auto* response) {
          const absl::StatusOr<TokenWish> wish = FromProto(request);
          return wish.ok() ? Reply(handler_->CreateToken(*wish), response) : ToGrpc(wish.status());
        });
    ServeOperator<v1::ListTokensRequest, v1::ListTokensResponse>(
        "ListTokens",
        [this](const auto&, auto* response) { return Reply(handler_->ListTokens(), response); });
    ServeOperator<v1::RevokeTokenRequest, v1::RevokeTokenResponse>(
        "RevokeToken",
        [this](const auto& request, auto*) { return ToGrpc(handler_->RevokeToken(request.id())); });
    ServeOperator<v1::ExpelRequest, v1::ExpelResponse>("Expel", [this](const auto& request,
                                                                       auto* response) {
      return Reply(handler_->Expel(request.worker(), request.undo(), request.whole()), response);
    });
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
        [this](const grpc::ServerContext&, const auto&, auto* response) {
          return Reply(handler_->GetStatus(), response);
        });
  }

 private:
  ShardHandler* const handler_;
  const CallGuard guard_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeCoordinatorService(CoordinatorHandler* handler,
                                                      CallGuard guard) {
  return std::make_unique<CoordinatorGrpc>(handler, std::move(guard));
}

std::unique_ptr<grpc::Service> MakeShardService(ShardHandler* handler, CallGuard guard) {
  return std::make_unique<ShardGrpc>(handler, std::move(guard));
}

}  // namespace longwave
