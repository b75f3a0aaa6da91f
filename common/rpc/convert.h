#ifndef LONGWAVE_COMMON_RPC_CONVERT_H_
#define LONGWAVE_COMMON_RPC_CONVERT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/rpc/admission.h"
#include "common/wire/control.h"
#include "common/wire/shard_report.h"
#include "longwave/v1/coordinator.pb.h"
#include "longwave/v1/shard.pb.h"

namespace longwave {

// Between the plain values of control.h and the messages of proto/. Private to this folder and its
// tests, since it names protobuf.
//
// From a message: InvalidArgument where it holds what no process of ours sends: an enum that is not
// set or not known, a worker that calls itself lost or joining, more of something than the limits
// below, a duration that is negative or not finite, a manifest that does not validate or does not
// have the hash that it claims. A loss may be NaN: what that means is the coordinator's to say.
//
// To a message: sentences (failures, reasons) and paths are clipped and made valid UTF-8, since the
// receiver drops a whole message over one bad byte.
inline constexpr int kSentenceBytesMax = 2048;
inline constexpr int kTensorRankMax = 16;
inline constexpr int kPathBytesMax = 4096;
inline constexpr int kNameBytesMax = 1024;     // names and addresses, data keys included
inline constexpr int kTextBytesMax = 1 << 16;  // settings, reasons
inline constexpr int kMembersMax = 1 << 16;    // of a membership, and shards of a run
inline constexpr int kRoundsMax = 1 << 14;     // reports of a heartbeat, records of a status
inline constexpr int kSegmentsMax = 1 << 20;

v1::Manifest ToProto(const Manifest& value);
absl::StatusOr<Manifest> FromProto(const v1::Manifest& message);

v1::RegisterWorkerRequest ToProto(const RegisterWorker& value);
absl::StatusOr<RegisterWorker> FromProto(const v1::RegisterWorkerRequest& message);

v1::RegisterShardRequest ToProto(const RegisterShard& value);
absl::StatusOr<RegisterShard> FromProto(const v1::RegisterShardRequest& message);

v1::RegisterShardResponse ToProto(const ShardRegistration& value);
absl::StatusOr<ShardRegistration> FromProto(const v1::RegisterShardResponse& message);

v1::WorkerHeartbeatRequest ToProto(const WorkerHeartbeat& value);
absl::StatusOr<WorkerHeartbeat> FromProto(const v1::WorkerHeartbeatRequest& message);

v1::WorkerHeartbeatResponse ToProto(const WorkerHeartbeatReply& value);
absl::StatusOr<WorkerHeartbeatReply> FromProto(const v1::WorkerHeartbeatResponse& message);

v1::ShardHeartbeatRequest ToProto(const ShardHeartbeat& value);
absl::StatusOr<ShardHeartbeat> FromProto(const v1::ShardHeartbeatRequest& message);

v1::ShardHeartbeatResponse ToProto(const ShardHeartbeatReply& value);
absl::StatusOr<ShardHeartbeatReply> FromProto(const v1::ShardHeartbeatResponse& message);

v1::GetStatusResponse ToProto(const RunStatus& value);
absl::StatusOr<RunStatus> FromProto(const v1::GetStatusResponse& message);

v1::GetRunResponse ToProto(const RunDescription& value);
absl::StatusOr<RunDescription> FromProto(const v1::GetRunResponse& message);

v1::GetShardStatusResponse ToProto(const ShardReport& value);
absl::StatusOr<ShardReport> FromProto(const v1::GetShardStatusResponse& message);

// All but the token, which goes before it in the call's metadata.
v1::JoinRequest ToProto(const JoinWish& value);
absl::StatusOr<JoinWish> FromProto(const v1::JoinRequest& message);

v1::JoinResponse ToProto(const JoinAnswer& value);
absl::StatusOr<JoinAnswer> FromProto(const v1::JoinResponse& message);

// InvalidArgument: a subject that is none.
absl::StatusOr<v1::CreateTokenRequest> ToProto(const TokenWish& value);
absl::StatusOr<TokenWish> FromProto(const v1::CreateTokenRequest& message);

v1::ListTokensResponse ToProto(const TokenList& value);
absl::StatusOr<TokenList> FromProto(const v1::ListTokensResponse& message);
v1::ExpelResponse ToProto(const Expulsion& value);
absl::StatusOr<Expulsion> FromProto(const v1::ExpelResponse& message);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CONVERT_H_
