#ifndef LONGWAVE_COMMON_RPC_GRPC_SERVICES_H_
#define LONGWAVE_COMMON_RPC_GRPC_SERVICES_H_

#include <memory>

#include "common/rpc/call_guard.h"
#include "common/rpc/rpc_server.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/service_type.h"

namespace longwave {

// Private to this folder: the services of proto/ in front of their handlers. A service checks the
// caller's rights, then reads, handles and answers the call.
std::unique_ptr<grpc::Service> MakeCoordinatorService(CoordinatorHandler* handler, CallGuard guard);
std::unique_ptr<grpc::Service> MakeShardService(ShardHandler* handler, CallGuard guard);
// Served beside either (probe.cc).
std::unique_ptr<grpc::Service> MakeProbeService(CallGuard guard);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_GRPC_SERVICES_H_
