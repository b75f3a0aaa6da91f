#ifndef LONGWAVE_COMMON_RPC_CONVERT_H_
#define LONGWAVE_COMMON_RPC_CONVERT_H_

#include "absl/status/statusor.h"
#include "common/control/control.h"
#include "common/rpc/admission_records.h"
#include "longwave/v1/coordinator.pb.h"
#include "longwave/v1/shard.pb.h"
#include "longwave/v1/shard.records.h"

namespace longwave {

// Between the records of control.h and the messages of proto/. Private to this folder and its
// tests, since it names protobuf.
//
// From a message: InvalidArgument where it breaks a limit that its proto states (limits.proto), a
// worker that calls itself lost or joining, a manifest that does not validate or does not have the
// hash that it claims.
#define LONGWAVE_RECORDS_AND_MESSAGES(X)           \
  X(Manifest, Manifest)                            \
  X(RegisterWorker, RegisterWorkerRequest)         \
  X(RegisterShard, RegisterShardRequest)           \
  X(ShardRegistration, RegisterShardResponse)      \
  X(WorkerHeartbeat, WorkerHeartbeatRequest)       \
  X(WorkerHeartbeatReply, WorkerHeartbeatResponse) \
  X(ShardHeartbeat, ShardHeartbeatRequest)         \
  X(ShardHeartbeatReply, ShardHeartbeatResponse)   \
  X(RunStatus, GetStatusResponse)                  \
  X(RunDescription, GetRunResponse)                \
  X(ShardReport, GetShardStatusResponse)           \
  X(JoinAnswer, JoinResponse)                      \
  X(NewToken, CreateTokenResponse)                 \
  X(TokenList, ListTokensResponse)                 \
  X(Expulsion, ExpelResponse)
#define LONGWAVE_DECLARE_CONVERSION(record, message) \
  v1::message ToProto(const record& value);          \
  absl::StatusOr<record> FromProto(const v1::message& from);
LONGWAVE_RECORDS_AND_MESSAGES(LONGWAVE_DECLARE_CONVERSION)
#undef LONGWAVE_DECLARE_CONVERSION

// All but the token, which goes before it in the call's metadata.
v1::JoinRequest ToProto(const JoinWish& value);
absl::StatusOr<JoinWish> FromProto(const v1::JoinRequest& message);

// InvalidArgument: a subject that is none.
absl::StatusOr<v1::CreateTokenRequest> ToProto(const TokenWish& value);
absl::StatusOr<TokenWish> FromProto(const v1::CreateTokenRequest& message);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CONVERT_H_
