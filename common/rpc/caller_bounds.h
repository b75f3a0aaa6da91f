#ifndef LONGWAVE_COMMON_RPC_CALLER_BOUNDS_H_
#define LONGWAVE_COMMON_RPC_CALLER_BOUNDS_H_

#include <cstddef>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace longwave {

// Private to this folder: what callers may cost a server, whoever they are.

// A stream takes this much of a request that is not read: the window it begins with.
inline constexpr int kUnreadBytesMax = 16 << 10;

// Of a process that may have so much memory: what all messages under way together may take.
size_t CallBytesMax(double process_bytes);

// A connection has `handshake_max` for its handshake, and few calls at a time; the messages under
// way take `bytes_max` together, beyond which gRPC ends calls.
void BoundCallers(size_t bytes_max, absl::Duration handshake_max, grpc::ServerBuilder& builder);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CALLER_BOUNDS_H_
