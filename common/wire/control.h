#ifndef LONGWAVE_COMMON_WIRE_CONTROL_H_
#define LONGWAVE_COMMON_WIRE_CONTROL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/layout/manifest.h"

namespace longwave {

// What coordinator, shards, workers and the command line tell each other on the control plane, as
// plain values. proto/longwave/v1/coordinator.proto says what each field means; common/rpc carries
// them over gRPC and is alone in knowing both forms.

enum class RunPhase : uint8_t {
  kWaiting = 1,
  kTraining = 2,
  kFinished = 3,
  kFailed = 4,
  kStopped = 5
};

enum class Instruction : uint8_t { kContinue = 1, kStop = 2 };

enum class WorkerPhase : uint8_t {
  kStarting = 1,
  kTraining = 2,
  kSyncing = 3,
  kValidating = 4,
  kDone = 5,
  kFailed = 6,
  kLost = 7,     // set by the coordinator alone, as kJoining
  kJoining = 8,  // a member that has no first round yet
};

// The first round of a member that has not caught up yet, and no round at all.
inline constexpr uint32_t kRoundNever = ~uint32_t{0};

struct RegisterWorker {
  std::string name;
  // Random word of the worker's folder: who comes back with it takes its place again at once.
  // Without a folder it is the incarnation.
  uint64_t identity = 0;
  Manifest manifest;
  uint64_t layout_hash = 0;
  uint64_t incarnation = 0;
  std::string settings;
  // Which of the processes that have opened that folder it is, counted from 1, plus 2^32 times the
  // rounds that the residual in it accounts for (0: there is none). 0: without a folder.
  uint64_t process = 0;
  std::string data_key;  // 32 bytes: the public CURVE key of its data connections; empty: none
  // Of its first weights, by segment, as RoundReport::segment_hashes; empty: it brings none.
  std::vector<uint64_t> start_hashes;
};

struct RegisterShard {
  uint32_t shard = 0;
  std::string data_endpoint;
  std::string control_endpoint;
  uint64_t incarnation = 0;
  std::string settings;
  uint64_t run = 0;  // that its folder holds; 0: none
  // Random word of its folder, drawn when that is made: which of a range's folders it is, should
  // there have been several. 0: without a folder.
  uint64_t folder = 0;
};

// The answer.
struct ShardRegistration {
  uint64_t run = 0;
  // Training has begun and this shard comes without its folder: it makes its range again from the
  // workers' replicas.
  bool restore = false;
  // That the run has finished: no segment is made again as it was before these, and a folder that
  // lacks one of them is from an older time.
  uint32_t rounds = 0;
  // Of its folder's log, that were durable when it was heard last: a log with fewer is from an
  // older time, too.
  uint64_t log_records = 0;
  // The newest epoch that the coordinator has told this shard: where the folder's log holds a later
  // one, it is the coordinator's folder that is from an older time.
  uint32_t told_epoch = 0;
  bool operator==(const ShardRegistration&) const = default;
};

struct Member {
  uint32_t worker = 0;
  std::string name;
  uint32_t first_round = 0;
  std::string data_key;  // as RegisterWorker's; shards alone are told
  // Its first weights are not the run's: it fetches every segment's state.
  bool other_start = false;
  bool operator==(const Member&) const = default;
};

struct Membership {
  uint32_t epoch = 0;  // 0: none yet
  std::vector<Member> members;
  bool operator==(const Membership&) const = default;
};

struct ShardAddress {
  uint32_t shard = 0;
  std::string data_endpoint;
  std::string control_endpoint;
  bool operator==(const ShardAddress&) const = default;
};

struct ByteCounts {
  uint64_t pushed = 0;
  uint64_t pulled = 0;
  uint64_t payload_pushed = 0;
  uint64_t payload_pulled = 0;
  bool operator==(const ByteCounts&) const = default;
};

struct WorkerState {
  WorkerPhase phase = WorkerPhase::kStarting;
  uint64_t step = 0;
  uint32_t round = 0;
  double train_loss = 0;
  uint64_t tokens = 0;
  ByteCounts bytes;
  double seconds_computing = 0;
  double seconds_syncing = 0;
  bool operator==(const WorkerState&) const = default;
};

// Of a round, or, from the run's number of rounds on, of a sealing round: of the replica with all
// rounds, without inner steps.
struct RoundReport {
  uint32_t round = 0;
  uint64_t step = 0;
  double train_loss = 0;
  std::optional<double> validation_loss;
  std::vector<uint64_t> segment_hashes;
  uint64_t tokens = 0;
  ByteCounts bytes;
  double seconds_computing = 0;
  double seconds_syncing = 0;
  bool operator==(const RoundReport&) const = default;
};

struct FinalReport {
  std::optional<double> validation_loss;
  std::string model_file;
  bool operator==(const FinalReport&) const = default;
};

struct WorkerHeartbeat {
  uint32_t worker = 0;
  uint64_t incarnation = 0;
  WorkerState state;
  std::vector<RoundReport> rounds;
  uint32_t known_epoch = 0;
  std::string failure;
  std::optional<FinalReport> final;
  // Of a member that catches up: the first round that it could push to; kRoundNever while it can't.
  // Said again, and grown, in each heartbeat until its first round has come.
  uint32_t ready_round = kRoundNever;
  bool leaving = false;  // it leaves the run on purpose and pushes nothing more
};

// Segments of a replica that differ from the others', to be fetched anew.
struct Repair {
  uint32_t round = 0;  // after which they differed
  std::vector<uint32_t> segments;
  bool operator==(const Repair&) const = default;
};

struct WorkerHeartbeatReply {
  Instruction instruction = Instruction::kContinue;
  std::string reason;
  RunPhase phase = RunPhase::kWaiting;
  uint64_t run = 0;
  std::optional<Membership> membership;
  std::vector<ShardAddress> shards;
  bool validates = false;
  std::optional<Repair> repair;
  uint32_t sealing_round = 0;  // to be reported by a worker that has all rounds; 0: it has done so
  bool sealed = false;         // every member has reported equal replicas with all rounds
};

struct ShardState {
  uint64_t pushes_accepted = 0;
  uint64_t pushes_duplicate = 0;
  uint64_t pushes_late = 0;
  uint64_t pushes_rejected = 0;
  uint64_t segments_closed = 0;
  uint32_t open_round = 0;
  uint64_t bytes_received = 0;
  uint64_t bytes_sent = 0;
  uint64_t pushes_busy = 0;       // not accepted for want of memory
  uint64_t pushes_clipped = 0;    // merged with less than their weight
  uint32_t newest_round = 0;      // the newest open round of any of its segments
  uint64_t closed_by_quorum = 0;  // segments closed without some that were waited for
  uint64_t log_bytes = 0;         // of its delta log
  uint64_t snapshot_bytes = 0;    // of its snapshots
  uint64_t log_records = 0;       // of its delta log, durable, from the first one ever on
  bool operator==(const ShardState&) const = default;
};

// A segment's parameters before a round, as a worker sent them to a shard that keeps snapshots.
struct SnapshotHash {
  uint32_t segment = 0;
  uint32_t round = 0;
  uint64_t hash = 0;  // as RoundReport::segment_hashes has it
  bool operator==(const SnapshotHash&) const = default;
};

// Whether such a hash is that of the members' majority after the round before.
struct SnapshotVerdict {
  uint32_t segment = 0;
  uint32_t round = 0;
  bool equal = false;
  bool operator==(const SnapshotVerdict&) const = default;
};

struct ShardHeartbeat {
  uint32_t shard = 0;
  uint64_t incarnation = 0;
  uint32_t known_epoch = 0;
  bool knows_manifest = false;
  ShardState state;
  std::string failure;                  // this process of it cannot go on, and ends
  std::string trouble;                  // it takes no pushes for now: a full disk, a damaged folder
  std::vector<SnapshotHash> snapshots;  // that wait for a verdict
  uint64_t names_version = 0;           // of the CallerNames that it has; 0: none
  std::string complaint;                // whose contribution was of no use of late, and why
};

struct NameOwner {
  std::string subject;              // "worker/NAME", "shard/N"
  std::array<std::byte, 32> key{};  // SHA-256 of its public key; zeros: a new token gives the name
  bool operator==(const NameOwner&) const = default;
};

// By what a shard refuses callers as the coordinator does: all workers that were expelled, and all
// names that belong to one key. The version is a word that no others have.
struct CallerNames {
  uint64_t version = 0;
  std::vector<std::string> expelled;
  std::vector<NameOwner> owners;
  bool operator==(const CallerNames&) const = default;
};

struct ShardHeartbeatReply {
  Instruction instruction = Instruction::kContinue;
  std::string reason;
  std::optional<Membership> membership;
  std::optional<Manifest> manifest;
  std::vector<SnapshotVerdict> verdicts;
  std::optional<CallerNames> names;
};

struct RoundRecord {
  uint32_t round = 0;
  uint64_t step = 0;
  double train_loss = 0;
  std::optional<double> validation_loss;
  uint64_t tokens = 0;
  ByteCounts bytes;
  double seconds = 0;
  double tokens_per_second = 0;
  bool replicas_equal = true;
  uint64_t state_hash = 0;
  uint32_t members = 0;
  double compute_share = 0;
  bool operator==(const RoundRecord&) const = default;
};

struct MemberStatus {
  Member member;
  WorkerState state;
  double heartbeat_age_s = 0;
};

struct ShardStatus {
  ShardAddress shard;
  ShardState state;
  double heartbeat_age_s = 0;
  bool silent = false;  // for longer than the timeout: the run waits for it
  std::string trouble;  // as it reports it
  std::string complaint;
};

// How often somebody was refused for a reason; docs/security.md lists the reasons.
struct RefusalCount {
  std::string reason;
  uint64_t count = 0;
  bool operator==(const RefusalCount&) const = default;
};

struct RunStatus {
  RunPhase phase = RunPhase::kWaiting;
  std::string failure;
  uint32_t epoch = 0;
  std::vector<MemberStatus> members;
  std::vector<ShardStatus> shards;
  std::vector<RoundRecord> records;
  uint64_t record_count = 0;
  uint64_t parameters = 0;
  bool replicas_equal = true;  // after the last finished round
  std::string inequality;      // empty if they are; otherwise the first difference since they were
  double seconds = 0;
  std::optional<double> validation_loss;
  uint64_t state_hash = 0;
  std::string model_file;
  uint32_t workers_wanted = 0;
  uint32_t shards_wanted = 0;
  std::string trouble;                 // what the run waits for, beyond its rounds; empty: nothing
  uint64_t repairs = 0;                // replicas that were told to fetch segments anew
  std::vector<RefusalCount> refusals;  // by the coordinator; without reasons that never came up
  bool secured = false;
};

// A run, as the coordinator describes it to a process that would take part.
struct RunDescription {
  std::string configuration;         // complete, as YAML; paths are the coordinator's
  std::optional<Manifest> manifest;  // once a worker has brought one
  bool operator==(const RunDescription&) const = default;
};

// One hash of a whole state from its segments' hashes, in order.
uint64_t CombineHashes(const std::vector<uint64_t>& segment_hashes);

std::string_view Name(RunPhase phase);     // "waiting", "training", "finished", "failed", "stopped"
std::string_view Name(WorkerPhase phase);  // "starting", "training", "syncing", "validating", …

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_CONTROL_H_
