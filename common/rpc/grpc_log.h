#ifndef LONGWAVE_COMMON_RPC_GRPC_LOG_H_
#define LONGWAVE_COMMON_RPC_GRPC_LOG_H_

#include <cstdint>

namespace longwave {

// Sends gRPC's own error lines, several for each connection that a peer breaks off, to Log as
// warnings: kGrpcLinesMax a minute (line_limit.h). With GRPC_VERBOSITY set gRPC logs by itself.
// tls.cc calls this before the first connection.
void TakeGrpcLog();

inline constexpr uint32_t kGrpcLinesMax = 5;

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_GRPC_LOG_H_
