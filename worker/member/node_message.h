#ifndef LONGWAVE_WORKER_MEMBER_NODE_MESSAGE_H_
#define LONGWAVE_WORKER_MEMBER_NODE_MESSAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/fields.h"
#include "common/control/control.h"
#include "worker/core/session_core.h"
#include "worker/sync/segment_ledger.h"

namespace longwave {

// A rank's words to the others of its node at a meeting (Node). Merged updates and snapshots stay
// with the rank that owns their segment: events of other ranks arrive without payloads.
struct NodeMessage {
  // The meeting, so that ranks that are not at the same point of the run notice.
  enum class Meeting : uint8_t { kStart, kStep, kEvents, kAgree, kHashes, kEnd };
  Meeting meeting = Meeting::kStep;
  absl::Status status;  // an error ends all ranks

  bool stop_requested = false;
  uint32_t newest_open_round = 0;
  ByteCounts bytes;
  uint64_t renewals = 0;
  std::vector<Settled> settled;
  std::vector<FetchEvent> fetched;
  std::vector<uint64_t> hashes;  // of the rank's segments
  // Of the rank's last inner step.
  uint64_t tokens = 0;
  std::optional<double> loss;
  std::vector<double> figures;        // see WorkerMetrics
  std::vector<std::string> warnings;  // for rank 0, which tells the coordinator

  // Rank 0 alone fills these in: its session is the node's.
  absl::Time now;
  Directive directive;
  std::optional<absl::Status> ended;                  // the session, see SessionCore::ended
  std::optional<std::vector<std::string>> endpoints;  // of the shards, if new
  uint64_t run = 0;
  uint32_t worker = 0;
  uint64_t process = 0;  // see WorkerFolder
  std::string public_key, secret_key;
  LONGWAVE_FIELDS(meeting, status, stop_requested, newest_open_round, bytes, renewals, settled,
                  fetched, hashes, tokens, loss, figures, warnings, now, directive, ended,
                  endpoints, run, worker, process, public_key, secret_key)
};

std::string Encode(const NodeMessage& message);
// InvalidArgument: not what Encode gives.
absl::StatusOr<NodeMessage> DecodeNodeMessage(std::string_view bytes);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_NODE_MESSAGE_H_
