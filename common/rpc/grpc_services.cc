#include "common/rpc/grpc_services.h"

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "common/base/status_macros.h"
#include "common/rpc/convert.h"
#include "common/rpc/guarded_service.h"
#include "longwave/v1/coordinator.rpc.h"
#include "longwave/v1/shard.rpc.h"

namespace longwave {
namespace {

// A service in front of its handler, for the calls that a generated ServeNAME gives it.
template <typename Service, typename Handler>
class HandledService final : public GuardedService<Service> {
 public:
  HandledService(Handler* handler, CallGuard guard)
      : GuardedService<Service>(std::move(guard)), handler_(handler) {}

  // Answers the call with what function(handler, values of the request…) returns.
  template <typename Request, typename Response, typename... Values, typename Function>
  void Serve(const char* call, Function function) {
    const v1::Caller caller = this->template OptionsOf<Request>(call).caller();
    this->template Answer<Request, Response>(
        call,
        [=, this](const Context& context, const Request& request) -> absl::StatusOr<Response> {
          LONGWAVE_RETURN_IF_ERROR(CheckSubject(context, call, caller, request));
          LONGWAVE_ASSIGN_OR_RETURN(auto values, FromRequest<Values...>(request));
          const auto answer = std::apply(
              [&](auto&... value) -> decltype(function(*handler_, value...)) {
                absl::Status added;
                (added.Update(AddCaller(context, call, caller, &value)), ...);
                if (!added.ok()) return added;
                return function(*handler_, value...);
              },
              values);
          if constexpr (std::is_same_v<decltype(answer), const absl::Status>) {
            LONGWAVE_RETURN_IF_ERROR(answer);
            return Response();
          } else {
            if (!answer.ok() && caller == v1::TOKEN)
              this->guard().Note(context, Refusal::kToken, answer.status().message());
            LONGWAVE_RETURN_IF_ERROR(answer.status());
            return ToResponse<Response>(*answer);
          }
        });
  }

 private:
  using Context = grpc::ServerContext;

  // Whether the caller is the process that the request names, where the call is that one's alone.
  template <typename Request>
  absl::Status CheckSubject(const Context& context, const char* call, v1::Caller caller,
                            const Request& request) const {
    if (caller != v1::WORKER && caller != v1::SHARD) return absl::OkStatus();
    CallRights rights;  // an operator's, where the request names nobody
    if constexpr (requires { request.shard(); }) {
      rights = {CallKind::kSubject, ShardIdentity(request.shard())};
    } else if constexpr (requires { request.name(); }) {
      rights = {CallKind::kSubject, WorkerIdentity(request.name())};
    } else if constexpr (requires { handler_->WorkerName(request.worker()); }) {
      // A caller with an unknown worker's index gets NotFound.
      const std::string name = this->guard().is_on() ? handler_->WorkerName(request.worker()) : "";
      rights = name.empty() ? CallRights{CallKind::kMember, {}}
                            : CallRights{CallKind::kSubject, WorkerIdentity(name)};
    }
    return this->guard().Check(context, call, rights);
  }

  // Adds to a record what it has of its caller.
  template <typename Value>
  absl::Status AddCaller(const Context& context, const char* call, v1::Caller caller,
                         Value* value) const {
    if constexpr (requires { value->token; }) {
      if (caller == v1::TOKEN) value->token = TokenOf(context);
    } else if constexpr (requires { value->caller; }) {
      const CallRights rights{CallKind::kMember, {}};
      if (caller == v1::ITSELF) return this->guard().Check(context, call, rights, &value->caller);
    }
    return absl::OkStatus();
  }

  Handler* const handler_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeCoordinatorService(CoordinatorHandler* handler,
                                                      CallGuard guard) {
  auto service = std::make_unique<HandledService<v1::Coordinator::Service, CoordinatorHandler>>(
      handler, std::move(guard));
  ServeCoordinator(*service);
  return service;
}

std::unique_ptr<grpc::Service> MakeShardService(ShardHandler* handler, CallGuard guard) {
  auto service = std::make_unique<HandledService<v1::ShardService::Service, ShardHandler>>(
      handler, std::move(guard));
  ServeShardService(*service);
  return service;
}

}  // namespace longwave
