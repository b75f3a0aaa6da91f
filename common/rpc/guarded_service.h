#ifndef LONGWAVE_COMMON_RPC_GUARDED_SERVICE_H_
#define LONGWAVE_COMMON_RPC_GUARDED_SERVICE_H_

#include "absl/status/status.h"
#include "common/base/errors.h"
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
 protected:
  // Answers the call of that name. let_in(context) decides whether to read the request;
  // answer(context, request, response) handles it. A request without fields is not read.
  template <typename Request, typename Response, typename LetIn, typename Answer>
  void Serve(const char* call, LetIn let_in, Answer answer) {
    using Stream = grpc::ServerReaderWriter<Response, Request>;
    const auto serve = [=](Service*, grpc::ServerContext* context, Stream* stream) {
      if (const absl::Status refusal = let_in(*context); !refusal.ok()) return ToGrpc(refusal);
      Request request;
      if (Request::descriptor()->field_count() > 0 && !stream->Read(&request)) {
        return ToGrpc(InvalidArgument(
            call, ": got no request, or one that cannot be read; wanted one of at most ",
            kMessageBytesMax, " bytes"));
      }
      Response response;
      const grpc::Status status = answer(*context, request, &response);
      if (status.ok()) stream->WriteLast(response, grpc::WriteOptions());
      return status;
    };
    this->MarkMethodStreamed(
        Request::descriptor()->file()->service(0)->FindMethodByName(call)->index(),
        new grpc::internal::BidiStreamingHandler<Service, Request, Response>(serve, this));
  }
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_GUARDED_SERVICE_H_
