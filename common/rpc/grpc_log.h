#ifndef LONGWAVE_COMMON_RPC_GRPC_LOG_H_
#define LONGWAVE_COMMON_RPC_GRPC_LOG_H_

#include <cstdint>

namespace longwave {

// gRPC writes error lines of its own, several for each connection that a stranger breaks off. From
// the first call on they go to Log as warnings, kGrpcLinesMax in kGrpcLinesWindow; the first line
// of the next window says how many were left out. Left to gRPC: all of it where GRPC_VERBOSITY is
// set, by somebody who wants to see it. tls.cc calls this before there is any connection.
void TakeGrpcLog();

inline constexpr uint32_t kGrpcLinesMax = 5;
inline constexpr int64_t kGrpcLinesWindowSeconds = 60;

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_GRPC_LOG_H_
