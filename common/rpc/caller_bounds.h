#ifndef LONGWAVE_COMMON_RPC_CALLER_BOUNDS_H_
#define LONGWAVE_COMMON_RPC_CALLER_BOUNDS_H_

#include <cstddef>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace longwave {

// Private to this folder: limits on what callers cost a server.

// The flow-control window of a new stream: the bytes of a request that the server buffers unread.
inline constexpr int kUnreadBytesMax = 16 << 10;

// The bytes of all messages under way together, for a process with so much memory.
size_t CallBytesMax(double process_bytes);

// gRPC gives each call a thread until it is answered, also one whose request never comes.
inline constexpr size_t kCallThreadBytes = 64 << 10;

// Limits a connection's handshake to `handshake_max`, and its calls to a few at a time. gRPC ends
// calls when messages under way exceed `bytes_max` together, or when as many calls are under way as
// threads of kCallThreadBytes fit into that.
void BoundCallers(size_t bytes_max, absl::Duration handshake_max, grpc::ServerBuilder& builder);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CALLER_BOUNDS_H_
