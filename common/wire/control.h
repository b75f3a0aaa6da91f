#ifndef LONGWAVE_COMMON_WIRE_CONTROL_H_
#define LONGWAVE_COMMON_WIRE_CONTROL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/fields.h"
#include "common/layout/manifest.h"

namespace longwave {

// The control plane's messages between coordinator, shards, workers and the command line, as plain
// values. proto/longwave/v1/coordinator.proto says what each field means. common/rpc alone converts
// between both forms.

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
  kLost = 7,      // set by the coordinator alone, as kJoining is
  kJoining = 8,   // a member that has no first round yet
  kExpelled = 9,  // set by the coordinator alone
};

// The first round of a member that has not caught up yet; no round at all.
inline constexpr uint32_t kRoundNever = ~uint32_t{0};

struct RegisterWorker {
  std::string name;
  // Random word of the worker's folder. A worker that returns with the same word takes its place
  // again at once. Without a folder: the incarnation.
  uint64_t identity = 0;
  Manifest manifest;
  uint64_t layout_hash = 0;
  uint64_t incarnation = 0;
  std::string settings;
  // The number of this process among those that have opened the folder, from 1, plus 2^32 times the
  // rounds that the folder's residual accounts for (0: no residual). 0: no folder.
  uint64_t process = 0;
  std::string data_key;  // 32 bytes, public CURVE key of the data connections; empty: none
  // The first weights' hashes by segment, as RoundReport::segment_hashes; empty: it brings none.
  std::vector<uint64_t> start_hashes;
  LONGWAVE_FIELDS(name, identity, manifest, layout_hash, incarnation, settings, process, data_key,
                  start_hashes)
};

struct RegisterShard {
  uint32_t shard = 0;
  std::string data_endpoint;
  std::string control_endpoint;
  uint64_t incarnation = 0;
  std::string settings;
  uint64_t run = 0;  // the run in the shard's folder; 0: none
  // Random word of the shard's folder, drawn when the folder is made, which tells several folders
  // of one range apart. 0: no folder.
  uint64_t folder = 0;
  LONGWAVE_FIELDS(shard, data_endpoint, control_endpoint, incarnation, settings, run, folder)
};

// The answer to RegisterShard.
struct ShardRegistration {
  uint64_t run = 0;
  // Training has begun and this shard has lost its folder: the shard restores its range from the
  // workers' replicas.
  bool restore = false;
  // The run's finished rounds. No segment is restored to a state before them. A folder that lacks
  // one of them is an outdated copy.
  uint32_t rounds = 0;
  // The durable records of the folder's log as of the shard's last heartbeat. A folder whose log
  // has fewer is an outdated copy.
  uint64_t log_records = 0;
  // The newest epoch that the coordinator has sent to this shard. If the folder's log has a later
  // one, the coordinator's folder is an outdated copy.
  uint32_t told_epoch = 0;
  LONGWAVE_FIELDS(run, restore, rounds, log_records, told_epoch)
  bool operator==(const ShardRegistration&) const = default;
};

struct Member {
  uint32_t worker = 0;
  std::string name;
  uint32_t first_round = 0;
  std::string data_key;  // as RegisterWorker's; only shards receive it
  // The member's first weights differ from the run's, so it fetches every segment's state.
  bool other_start = false;
  LONGWAVE_FIELDS(worker, name, first_round, data_key, other_start)
  bool operator==(const Member&) const = default;
};

struct Membership {
  uint32_t epoch = 0;  // 0: none yet
  std::vector<Member> members;
  LONGWAVE_FIELDS(epoch, members)
  bool operator==(const Membership&) const = default;
};

struct ShardAddress {
  uint32_t shard = 0;
  std::string data_endpoint;
  std::string control_endpoint;
  LONGWAVE_FIELDS(shard, data_endpoint, control_endpoint)
  bool operator==(const ShardAddress&) const = default;
};

struct ByteCounts {
  uint64_t pushed = 0;
  uint64_t pulled = 0;
  uint64_t payload_pushed = 0;
  uint64_t payload_pulled = 0;
  LONGWAVE_FIELDS(pushed, pulled, payload_pushed, payload_pulled)
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
  uint32_t ranks = 1;  // processes of the worker, each with a device; 0 as 1
  LONGWAVE_FIELDS(phase, step, round, train_loss, tokens, bytes, seconds_computing, seconds_syncing,
                  ranks)
  bool operator==(const WorkerState&) const = default;
};

// The report of a round or, from the run's number of rounds on, of a sealing round: of the replica
// with all rounds, without inner steps.
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
  LONGWAVE_FIELDS(round, step, train_loss, validation_loss, segment_hashes, tokens, bytes,
                  seconds_computing, seconds_syncing)
  bool operator==(const RoundReport&) const = default;
};

struct FinalReport {
  std::optional<double> validation_loss;
  std::string model_file;
  LONGWAVE_FIELDS(validation_loss, model_file)
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
  // Of a member that catches up: the first round that it could push to. Repeated, and raised, in
  // each heartbeat until the member's first round.
  std::optional<uint32_t> ready_round;
  bool leaving = false;  // leaves the run on purpose and pushes nothing more
  LONGWAVE_FIELDS(worker, incarnation, state, rounds, known_epoch, failure, final, ready_round,
                  leaving)
};

// Segments of a replica that differ from the majority's. The worker fetches them again.
struct Repair {
  uint32_t round = 0;  // the round after which they differed
  std::vector<uint32_t> segments;
  LONGWAVE_FIELDS(round, segments)
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
  uint32_t sealing_round = 0;  // requested of a worker that has all rounds; 0: already reported
  bool sealed = false;         // all members have reported equal replicas with all rounds
  LONGWAVE_FIELDS(instruction, reason, phase, run, membership, shards, validates, repair,
                  sealing_round, sealed)
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
  uint64_t pushes_busy = 0;       // not accepted for lack of memory
  uint64_t pushes_clipped = 0;    // merged with less than their weight
  uint32_t newest_round = 0;      // the newest open round of any of its segments
  uint64_t closed_by_quorum = 0;  // segments closed before all members had pushed
  uint64_t log_bytes = 0;         // of the delta log
  uint64_t snapshot_bytes = 0;    // of the snapshots
  uint64_t log_records = 0;       // durable records of the delta log since its beginning
  LONGWAVE_FIELDS(pushes_accepted, pushes_duplicate, pushes_late, pushes_rejected, segments_closed,
                  open_round, bytes_received, bytes_sent, pushes_busy, pushes_clipped, newest_round,
                  closed_by_quorum, log_bytes, snapshot_bytes, log_records)
  bool operator==(const ShardState&) const = default;
};

// A segment's parameters before a round, as a worker sent them to a shard that stores snapshots.
struct SnapshotHash {
  uint32_t segment = 0;
  uint32_t round = 0;
  uint64_t hash = 0;  // as RoundReport::segment_hashes
  LONGWAVE_FIELDS(segment, round, hash)
  bool operator==(const SnapshotHash&) const = default;
};

// Whether a SnapshotHash equals the hash of the members' majority after the round before.
struct HashCheck {
  uint32_t segment = 0;
  uint32_t round = 0;
  bool equal = false;
  LONGWAVE_FIELDS(segment, round, equal)
  bool operator==(const HashCheck&) const = default;
};

struct ShardHeartbeat {
  uint32_t shard = 0;
  uint64_t incarnation = 0;
  uint32_t known_epoch = 0;
  bool knows_manifest = false;
  ShardState state;
  std::string failure;  // the shard's process cannot go on, and ends
  std::string trouble;  // why it accepts no pushes for now: a full disk, a damaged folder
  std::vector<SnapshotHash> snapshots;  // snapshots that wait for a hash check
  uint64_t names_version = 0;           // of the shard's CallerNames; 0: none
  std::string complaint;  // the worker whose contribution was unusable lately, and why
  LONGWAVE_FIELDS(shard, incarnation, known_epoch, knows_manifest, state, failure, trouble,
                  snapshots, names_version, complaint)
};

struct NameOwner {
  std::string subject;              // "worker/NAME", "shard/N"
  std::array<std::byte, 32> key{};  // SHA-256 of its public key; zeros: a new token gives the name
  LONGWAVE_FIELDS(subject, key)
  bool operator==(const NameOwner&) const = default;
};

// The names by which shards reject callers as the coordinator does: all expelled workers, and all
// names that belong to one key. The version is a unique word.
struct CallerNames {
  uint64_t version = 0;
  std::vector<std::string> expelled;
  std::vector<NameOwner> owners;
  LONGWAVE_FIELDS(version, expelled, owners)
  bool operator==(const CallerNames&) const = default;
};

struct ShardHeartbeatReply {
  Instruction instruction = Instruction::kContinue;
  std::string reason;
  std::optional<Membership> membership;
  std::optional<Manifest> manifest;
  std::vector<HashCheck> hash_checks;
  std::optional<CallerNames> names;
  LONGWAVE_FIELDS(instruction, reason, membership, manifest, hash_checks, names)
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
  LONGWAVE_FIELDS(round, step, train_loss, validation_loss, tokens, bytes, seconds,
                  tokens_per_second, replicas_equal, state_hash, members, compute_share)
  bool operator==(const RoundRecord&) const = default;
};

struct MemberStatus {
  Member member;
  WorkerState state;
  double heartbeat_age_s = 0;
  LONGWAVE_FIELDS(member, state, heartbeat_age_s)
};

struct ShardStatus {
  ShardAddress shard;
  ShardState state;
  double heartbeat_age_s = 0;
  bool silent = false;  // the heartbeat timeout has passed: the run waits for it
  std::string trouble;  // as the shard reports it
  std::string complaint;
  LONGWAVE_FIELDS(shard, state, heartbeat_age_s, silent, trouble, complaint)
};

// The count of rejects for one reason; docs/security.md lists the reasons.
struct RefusalCount {
  std::string reason;
  uint64_t count = 0;
  LONGWAVE_FIELDS(reason, count)
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
  std::string inequality;      // the first difference; empty if the replicas are equal
  double seconds = 0;
  std::optional<double> validation_loss;
  uint64_t state_hash = 0;
  std::string model_file;
  uint32_t workers_wanted = 0;
  uint32_t shards_wanted = 0;
  std::string trouble;                 // why the run waits, beyond its rounds; empty: no reason
  uint64_t repairs = 0;                // replicas with segments that were to be fetched again
  std::vector<RefusalCount> refusals;  // the coordinator's; without reasons that never occurred
  bool secured = false;
  LONGWAVE_FIELDS(phase, failure, epoch, members, shards, records, record_count, parameters,
                  replicas_equal, inequality, seconds, validation_loss, state_hash, model_file,
                  workers_wanted, shards_wanted, trouble, repairs, refusals, secured)
};

// A run, as the coordinator describes it to a process that may join.
struct RunDescription {
  std::string configuration;         // complete, as YAML; paths are the coordinator's
  std::optional<Manifest> manifest;  // set once a worker has brought one
  LONGWAVE_FIELDS(configuration, manifest)
  bool operator==(const RunDescription&) const = default;
};

// The hash of a whole state from its segments' hashes, in order.
uint64_t CombineHashes(const std::vector<uint64_t>& segment_hashes);

bool IsOver(RunPhase phase);               // finished, failed or stopped
std::string_view Name(RunPhase phase);     // "waiting", "training", "finished", "failed", "stopped"
std::string_view Name(WorkerPhase phase);  // "starting", "training", "syncing", "validating", …

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_CONTROL_H_
