#include "common/rpc/caller_bounds.h"

#include <algorithm>

namespace longwave {
namespace {

// A client makes few calls at a time.
constexpr int kStreamsMax = 32;
constexpr size_t kCallBytesMax = size_t{1} << 30;
// A connection's read buffer grows with the bytes that arrive, up to megabytes by default.
constexpr int kReadBytesMax = 64 << 10;

}  // namespace

size_t CallBytesMax(double process_bytes) {
  return static_cast<size_t>(std::min(process_bytes / 4, static_cast<double>(kCallBytesMax)));
}

void BoundCallers(size_t bytes_max, absl::Duration handshake_max, grpc::ServerBuilder& builder) {
  builder.SetResourceQuota(grpc::ResourceQuota("longwave")
                               .Resize(bytes_max)
                               .SetMaxThreads(static_cast<int>(bytes_max / kCallThreadBytes)));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(handshake_max)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsMax);
  // The windows of streams whose requests are not read keep their initial size. gRPC opens the
  // window of a request that is read for all of it.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kUnreadBytesMax);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytesMax);
}

}  // namespace longwave
