#ifndef LONGWAVE_TESTS_SIM_SIM_SHARD_H_
#define LONGWAVE_TESTS_SIM_SIM_SHARD_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/rng.h"
#include "server/shard_state/durable_shard.h"
#include "server/store/sim_file_system.h"
#include "tests/sim/environment.h"
#include "tests/sim/lying_file_system.h"
#include "tests/sim/process.h"
#include "tests/sim/sim_coordinator.h"

namespace longwave::sim {

// Whoever sent a frame: a process, which may be gone when the answer comes, and the number of its
// connection, likewise.
struct Peer {
  Process* process = nullptr;
  uint64_t generation = 0;
  uint64_t connection = 0;
};

// Takes frames from shards: a worker.
class FrameTaker {
 public:
  virtual ~FrameTaker() = default;
  virtual void TakeFrame(uint32_t shard, uint64_t connection, const WireFrame& frame) = 0;
};

// The real DurableShard on simulated time, network and disk, driven as the server's data plane and
// its heartbeats do.
class SimShard final : public Process {
 public:
  SimShard(const Environment& env, SimCoordinator* coordinator, uint32_t shard);

  // A worker's frame that was sent to the shard when it listened at `port`. Runs in this process.
  void TakeFrame(const WireFrame& frame, const Peer& from, FrameTaker* taker, uint64_t port);
  uint64_t port() const { return port_; }

  // Faults of its machine.
  void LosePower();
  void LoseFolder();
  // A backup of its folder is taken, put in the place of the folder while the process is down, if
  // the coordinator's record shows that it lacks something, and the folder is put back.
  void CopyFolder();
  bool PutCopyBack();
  void PutNewestBack();
  bool has_older_folder() const { return newest_disk_ != nullptr; }
  SimFaults& disk_faults() { return disk_->faults; }
  const SimFileSystem& disk() const { return *disk_; }
  // The next crash in a write is one of the power, not of the process.
  void set_write_crash_is_power(bool power) { write_crash_is_power_ = power; }

  const DurableShard* durable() const { return shard_.get(); }
  // What it has come to, for whom a world that does not end is told.
  std::string Describe() const;

  // Called when a crash in the midst of a write has ended the process.
  std::function<void()> on_write_crash;

 private:
  struct Asker {
    Peer peer;
    FrameTaker* taker = nullptr;
    uint32_t crc = 0;  // of a push
  };

  void OnStart() override;
  void OnCrash() override;

  // Control.
  void Register();
  void Beat();
  void TakeReply(const ShardHeartbeatReply& reply);
  void OpenShard(const Manifest& manifest);
  absl::StatusOr<std::unique_ptr<ShardStore>> OpenStore();
  void StartAgain();

  // Data.
  void Handle(const FrameHeader& header, const WireFrame& frame, const Asker& asker);
  void Poison(FrameHeader header, const WireFrame& frame);
  void Step(const ShardEvent& event, const Asker* asker);
  void CommitSoon();
  void Commit();
  void WakeWhenDue();
  void Perform(ShardEffect& effect);
  void PerformMerged(const SendMerged& merged);
  void SendTo(const Asker& to, const FrameHeader& header, const Buffer& payload);
  void SendToWorker(uint32_t worker, const FrameHeader& header, const Buffer& payload);
  void AnswerHello(const FrameHeader& header, const Asker& asker);
  bool IsMember(uint32_t worker) const;
  std::optional<uint32_t> LoggedCrc(const FrameHeader& merged, uint32_t worker);
  void Observe();
  bool EndIfStopped();
  void UseDisk(std::unique_ptr<SimFileSystem> disk);
  void DoublePush(const FrameHeader& header, const WireFrame& frame);

  const Environment env_;
  SimCoordinator* const coordinator_;
  const uint32_t index_;
  Rng rng_;
  std::unique_ptr<SimFileSystem> disk_;
  std::unique_ptr<LyingFileSystem> lying_;
  struct FolderCopy {
    std::unique_ptr<SimFileSystem> disk;
    uint64_t folder = 0;       // its random word
    uint64_t log_records = 0;  // of its log
  };
  std::optional<FolderCopy> copy_;
  std::unique_ptr<SimFileSystem> newest_disk_;  // while an older one is in its place
  SimFileSystem::Stop next_stop_ = SimFileSystem::Stop::kProcess;
  bool write_crash_is_power_ = false;
  uint64_t folder_run_ = 0;    // that its folder holds, at the start of the process
  uint64_t folder_ = 0;        // its random word; 0: without a folder
  bool folder_is_new_ = true;  // nothing of a run was ever in it
  bool was_ever_restoring_ = false;
  uint64_t port_ = 0;

  // Of the process.
  uint64_t incarnation_ = 0;
  std::optional<ShardRegistration> registration_;
  uint32_t known_epoch_ = 0;
  bool knows_manifest_ = false;
  bool stopped_ = false;
  Membership membership_;
  std::unique_ptr<DurableShard> shard_;
  std::map<uint32_t, Asker> routes_;      // by worker
  std::map<uint64_t, Asker> askers_;      // by event, until its commit
  std::map<uint64_t, uint32_t> poisons_;  // likewise, their kinds
  bool commit_is_due_ = false;
  absl::Time wakes_at_ = absl::InfiniteFuture();
  bool had_trouble_ = false;
  bool was_restoring_ = false;
  uint64_t closed_by_quorum_ = 0;
  uint64_t log_bytes_ = 0;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_SIM_SHARD_H_
