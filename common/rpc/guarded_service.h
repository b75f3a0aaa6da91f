#ifndef LONGWAVE_COMMON_RPC_GUARDED_SERVICE_H_
#define LONGWAVE_COMMON_RPC_GUARDED_SERVICE_H_

#include <utility>

#include "absl/status/status.h"
#include "common/base/errors.h"
#include "common/rpc/call_guard.h"
#include "common/rpc/channel.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/method_handler.h"

namespace longwave {

// Private to this folder: a service of proto/ that reads a request only from an admitted caller.
// gRPC would read a unary call's request before its handler runs, and check the size limit only
// with the whole message in memory, so any peer could fill the memory. So each call is a stream to
// the server, with one message each way, which is the same on the wire: a stranger's request stays
// within its stream's window (kUnreadBytesMax).
template <typename Service>
class GuardedService : public Service {
 public:
  explicit GuardedService(CallGuard guard) : guard_(std::move(guard)) {}

 protected:
  // Answers the call of that name, as far as its options let the caller in, with the StatusOr of a
  // response that answer(context, request) returns. A request without fields is not read.
  template <typename Request, typename Response, typename Code>
  void Answer(const char* call, Code answer) {
    using Stream = grpc::ServerReaderWriter<Response, Request>;
    const auto serve = [=, this](Service*, grpc::ServerContext* context, Stream* stream) {
      const v1::CallOptions& options = OptionsOf<Request>(call);
      if (const absl::Status refusal = guard_.LetIn(*context, call, options); !refusal.ok())
        return ToGrpc(refusal);
      Request request;
      if (Request::descriptor()->field_count() > 0 && !stream->Read(&request)) {
        return ToGrpc(InvalidArgument(
            call, ": got no request, or one that cannot be read; wanted one of at most ",
            kMessageBytesMax, " bytes"));
      }
      const size_t bytes = request.ByteSizeLong(), bytes_max = options.request_bytes();
      if (bytes_max != 0 && bytes > bytes_max) {
        return ToGrpc(InvalidArgument(call, ": got a request of ", bytes, " bytes, wanted at most ",
                                      bytes_max));
      }
      const absl::StatusOr<Response> response = answer(*context, request);
      if (response.ok()) stream->WriteLast(*response, grpc::WriteOptions());
      return ToGrpc(response.status());
    };
    this->MarkMethodStreamed(
        MethodOf<Request>(call).index(),
        new grpc::internal::BidiStreamingHandler<Service, Request, Response>(serve, this));
  }

  template <typename Request>
  static const v1::CallOptions& OptionsOf(const char* call) {
    return MethodOf<Request>(call).options().GetExtension(v1::call);
  }
  const CallGuard& guard() const { return guard_; }

 private:
  template <typename Request>
  static const google::protobuf::MethodDescriptor& MethodOf(const char* call) {
    return *Request::descriptor()->file()->service(0)->FindMethodByName(call);
  }

  const CallGuard guard_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_GUARDED_SERVICE_H_
