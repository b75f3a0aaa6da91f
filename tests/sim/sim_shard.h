#ifndef LONGWAVE_TESTS_SIM_SIM_SHARD_H_
#define LONGWAVE_TESTS_SIM_SIM_SHARD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/base/heartbeat_schedule.h"
#include "common/base/rng.h"
#include "common/link/peer_frame.h"
#include "server/shard_state/durable_shard.h"
#include "tests/sim/disk_process.h"
#include "tests/sim/sim_coordinator.h"

namespace longwave {
class SealedFrame;
class ShardCore;
}  // namespace longwave

namespace longwave::sim {

// The sender of a frame: a process, and the number of its connection. Both may be dead when the
// answer comes.
struct Peer {
  Process* process = nullptr;
  uint64_t generation = 0;
  uint64_t connection = 0;

  // Unique among the connections of the node.
  uint64_t id() const { return (generation << 32) + connection; }
};

// Receives frames from shards: a worker.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  virtual void OnFrame(uint32_t shard, uint64_t connection, const WireFrame& frame) = 0;
};

// The real ShardCore on simulated time, network and disk, with heartbeats like the server's.
// SimShard checks that each answer leaves on the connection of a request of the same kind, round
// and segment that had no answer yet.
class SimShard final : public DiskProcess {
 public:
  SimShard(const Environment& env, SimCoordinator* coordinator, uint32_t shard);
  ~SimShard() override;

  // A worker's frame for the shard when it listened at `port`. Runs in this process.
  void OnFrame(const WireFrame& frame, const Peer& from, FrameReceiver* receiver, uint64_t port);
  uint64_t port() const { return port_; }

  // Faults of the machine.
  void LoseFolder();
  // CopyFolder takes a backup of the folder. PutCopyBack replaces the folder by it while the
  // process is down, if the coordinator's record shows that the backup lacks records. PutNewestBack
  // restores the newest.
  void CopyFolder();
  bool PutCopyBack();
  bool PutBack();  // also if the coordinator's record is from an older time as well
  void PutNewestBack();
  bool has_older_folder() const { return newest_disk_ != nullptr; }
  // Whether the copy lacks more rounds of each segment than a shard takes for a lost end.
  bool IsCopyFarBehind() const;
  // The machine loses power, and its disk what it has confirmed since the last heartbeat. False: it
  // has confirmed nothing that may be lost.
  bool LoseTail();
  // The rounds that were lost with the log's end have not come back yet.
  bool lacks_tail() const { return !lost_until_.empty(); }

  const DurableShard* durable() const;
  // Called at the end of a finished run: checks the kept snapshot of the run's start.
  void CheckEnd();
  // The shard's state, for messages about a world that does not end.
  std::string Describe() const;

 private:
  struct Connection {
    Peer peer;
    FrameReceiver* receiver = nullptr;
  };
  using Request = std::tuple<PeerId, FrameKind, uint32_t /*round*/, uint32_t /*segment*/>;

  void OnStart() override;
  void OnCrash() override;

  // Control.
  void CallCoordinator();
  void Register();
  void Beat();
  void OnCallEnded(const absl::Status& answer);
  void OnReply(const ShardHeartbeatReply& reply);
  void OpenShard(const Manifest& manifest);
  absl::StatusOr<std::unique_ptr<ShardStore>> OpenStore();

  // Data.
  void Poison(PushFrame header, const WireFrame& frame);
  void DoublePush(const PushFrame& header, const WireFrame& frame);
  void CommitSoon();
  void Commit();
  void SendDue();
  absl::Status Send(const PeerId& peer, const SealedFrame& sealed);
  WireFrame Wire(const SealedFrame& sealed);
  void CheckIsRequested(const PeerId& peer, const FrameHeader& answer);
  void Check(const ShardEffect& effect);
  void CheckStart(uint32_t segment, const Buffer& payload);
  void CheckAnswer(uint64_t event, const AnswerFrame& header);
  void CheckMerged(const MergedFrame& header, const Buffer& payload);
  std::optional<uint32_t> LoggedCrc(const MergedFrame& merged, uint32_t worker);
  void TakeNotices();
  void TellRestores();  // to the checker, which are in the log
  void Observe();

  SimCoordinator* const coordinator_;
  const uint32_t index_;
  Rng rng_;
  struct FolderCopy {
    std::unique_ptr<SimFileSystem> disk;
    uint64_t folder = 0;       // its random word
    uint64_t log_records = 0;  // of the copy's log
    std::vector<uint32_t> open_rounds;
  };
  std::optional<FolderCopy> NewCopy();  // nothing: there is no folder
  std::vector<uint32_t> OpenRounds() const;
  bool IsDeafTo(const FrameName& frame) const;  // by a canary
  std::optional<FolderCopy> copy_;
  bool keeps_tail_ = false;           // some fault loses the log's end
  std::optional<FolderCopy> tail_;    // as of the last heartbeat
  uint64_t restores_told_ = 0;        // the last log record up to which the checker knows restores
  std::vector<uint32_t> lost_until_;  // the open rounds before the log's end was lost
  std::unique_ptr<SimFileSystem> newest_disk_;  // set while an older one replaces it
  uint64_t folder_run_ = 0;                     // run of the folder at the start of the process
  uint64_t folder_ = 0;                         // random word; 0: no folder
  bool folder_is_new_ = true;                   // the folder never had a run
  bool was_ever_restoring_ = false;
  uint64_t port_ = 0;

  // State of the process.
  uint64_t incarnation_ = 0;
  std::optional<HeartbeatSchedule> schedule_;
  std::optional<ShardRegistration> registration_;
  uint32_t known_epoch_ = 0;
  bool knows_manifest_ = false;
  bool stopped_ = false;
  std::unique_ptr<ShardCore> core_;
  absl::flat_hash_map<PeerId, Connection> connections_;
  absl::flat_hash_map<uint32_t, uint64_t> newest_connections_;  // by node
  absl::flat_hash_map<Request, uint32_t> requests_;  // without an answer, with their counts
  std::map<uint64_t, uint32_t> pushes_;              // CRCs of pushes until their commit, by event
  std::map<uint64_t, uint32_t> poisons_;             // likewise, kinds of poison
  FrameHeader last_merged_;                          // the last one sent; for a canary
  bool commit_is_due_ = false;
  bool had_trouble_ = false;
  bool was_restoring_ = false;
  uint64_t closed_by_quorum_ = 0;
  uint64_t log_bytes_ = 0;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_SIM_SHARD_H_
