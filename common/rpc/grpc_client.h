#ifndef LONGWAVE_COMMON_RPC_GRPC_CLIENT_H_
#define LONGWAVE_COMMON_RPC_GRPC_CLIENT_H_

#include <memory>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/convert.h"
#include "common/rpc/coordinator_client.h"
#include "grpcpp/grpcpp.h"

namespace longwave {

// Private to this folder: the calls of a service over one channel. Client has the functions that a
// generated stub (longwave/v1/NAME.rpc.h) implements by Call. Thread-safe.
template <typename Service, typename Client>
class GrpcClient : public Client {
 public:
  GrpcClient(std::string who, std::string address, absl::Duration deadline,
             const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : channel_(std::move(who), std::move(address), deadline, credentials),
        stub_(Service::NewStub(channel_.grpc())) {}

 protected:
  template <typename Answer, typename Request, typename Response, typename... Values>
  Answer Call(grpc::Status (Service::Stub::*call)(grpc::ClientContext*, const Request&, Response*),
              const Values&... values) const {
    LONGWAVE_ASSIGN_OR_RETURN(const Request request, ToRequest<Request>(values...));
    LONGWAVE_RETURN_IF_ERROR(CheckTexts(request));
    Response response;
    LONGWAVE_RETURN_IF_ERROR(channel_.Invoke(
        [&](grpc::ClientContext* context) {
          (AddToken(values, context), ...);
          return ((*stub_).*call)(context, request, &response);
        },
        request.ByteSizeLong()));
    if constexpr (std::is_same_v<Answer, absl::Status>) {
      return absl::OkStatus();
    } else {
      return FromResponse<Answer>(response);
    }
  }

 private:
  // A record's token goes before the request.
  template <typename Value>
  static void AddToken(const Value& value, grpc::ClientContext* context) {
    if constexpr (requires { value.token; }) context->AddMetadata(kTokenKey, value.token);
  }

  const Channel channel_;
  const std::unique_ptr<typename Service::Stub> stub_;
};

// A client of a coordinator with other credentials than a folder's.
std::unique_ptr<CoordinatorClient> ConnectToCoordinator(
    const std::string& address, absl::Duration deadline,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_GRPC_CLIENT_H_
