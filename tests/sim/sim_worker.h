#ifndef LONGWAVE_TESTS_SIM_SIM_WORKER_H_
#define LONGWAVE_TESTS_SIM_SIM_WORKER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "kernels/ops.h"
#include "server/store/sim_file_system.h"
#include "tests/sim/environment.h"
#include "tests/sim/process.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_shard.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/sync/pipeline.h"
#include "worker/sync/worker_ledger.h"

namespace longwave::sim {

// A worker as the trainer, the session and the exchange make it: the real pipeline, ledgers and
// checkpoints, driven by events. Its signals are whole numbers drawn from its stream.
//
//   joining    registers, and is told of the members and shards
//   hearing    fetches what leads each segment to its present
//   resuming   asks what became of the pushes of its checkpoint
//   following  takes in what closes until all segments stand at one round, from which on it may
//   push filling    closes what nobody else closes computing  the steps of a round syncing    its
//   contributions are posted; each is settled, and its update applied repairing  between two
//   rounds: segments that differ are made anew done       has all rounds
class SimWorker final : public Process, public FrameTaker {
 public:
  SimWorker(const Environment& env, const KernelOps* ops, SimCoordinator* coordinator,
            std::vector<SimShard*> shards, uint32_t place);

  void TakeFrame(uint32_t shard, uint64_t connection, const WireFrame& frame) override;

  // Faults.
  void Slow(double factor, absl::Time until);
  void LoseFolder();
  void BackUp();
  // False: there is nothing to come back with, or it is down. It is to be started.
  bool ComeBackFromBackUp();
  void Damage(uint64_t element);
  // Its connection to the shard dies without being seen: what is sent on it vanishes, from the
  // shard, too, unless one_way, until it is made anew.
  void KillConnection(uint32_t shard, bool one_way);

  std::string Describe() const;

  // At the end of a run that is finished: what it has done is right, and was not only said to be.
  void CheckEnd() const;

  // Rounds of the segment that are in its replica; nothing: it has none yet.
  std::optional<uint32_t> rounds_of(uint32_t segment) const;
  // It trains, so that a shard that has lost a segment can have it from here.
  bool catches_up() const;
  bool trains() const { return stage_ == Stage::kComputing || stage_ == Stage::kSyncing; }

 private:
  std::string name() const { return absl::StrCat("worker-", place_); }

  enum class Stage : uint8_t {
    kJoining,
    kHearing,
    kResuming,
    kFollowing,
    kFilling,
    kComputing,
    kSyncing,
    kRepairing,
    kDone
  };

  void OnStart() override;
  void OnCrash() override;

  // Control.
  void Register();
  void SetFolderAside();
  void Beat();
  void BeatNow();
  void TakeReply(const WorkerHeartbeat& sent, const WorkerHeartbeatReply& reply);
  const Member* Self() const;
  uint32_t first_round() const;
  void ConnectShards();

  // Catching up.
  void BeginWithShards();
  bool ReadCheckpoint();
  void SetReadyRound(uint32_t round);
  void Join();
  void FetchAgain(uint32_t segment);
  bool HeardAll() const;
  void TakeFetched(const FetchEvent& event);
  absl::Status ApplyFetched(const Fetched& fetched);
  void Heard();
  void BeginToFollow();
  void FollowForEver(uint64_t which);
  void Follow();
  void Fill(uint32_t round);
  void FillFragment();
  void PostAgain();
  bool IsBehind(uint32_t next) const;
  uint32_t LowestRound() const;
  uint32_t HighestAnchor() const;
  uint32_t HighestRound() const;

  // Rounds.
  void Compute();
  void Send();
  bool WriteCheckpoint(const std::vector<SegmentPush>& pushes);
  void Post(std::vector<SegmentPush> pushes);
  void TakeSettled(const Settled& settled);
  absl::Status TakeBack(const Settled& settled);
  void EndPosting();
  void EndSync();
  void EndRound();
  void GoOn();
  bool Repair();
  void Repaired();
  bool IsToldToRepairLast() const;
  void ReportLastAgain();
  void ReportEndIfCaughtUp();
  // Repairs of the last round, and then the final report.
  void Conclude();
  void NextRound();

  // Data.
  void Pump();
  void Reconnect(uint32_t shard);
  void RenewLost();
  void SendDue();
  void ServeAsks();
  void WakeWhenDue();
  void SendFrame(const OutgoingFrame& frame);

  std::span<const float> AnchorOf(uint32_t segment) const;
  void CheckReplica();
  void CheckResidual();
  void Die(const absl::Status& status, const char* doing);

  const Environment env_;
  const KernelOps* const ops_;
  SimCoordinator* const coordinator_;
  const std::vector<SimShard*> shards_;
  const uint32_t place_;  // of this process in the world; its name tells it
  Rng rng_;
  std::unique_ptr<SimFileSystem> disk_;
  Account kept_account_;  // of the checkpoint on the disk
  std::unique_ptr<SimFileSystem> backup_;
  Account backup_account_;
  bool is_from_backup_ = false;  // its disk; a late push may put its refusal off
  double slowness_ = 1;
  absl::Time slow_until_ = absl::InfinitePast();

  // Of the process.
  uint64_t incarnation_ = 0;
  uint64_t identity_ = 0;
  Stage stage_ = Stage::kJoining;
  std::unique_ptr<WorkerFolder> folder_;
  std::vector<float> theta_;
  std::unique_ptr<SyncPipeline> pipeline_;
  std::unique_ptr<WorkerLedger> ledger_;
  Account account_;

  uint32_t worker_ = 0;  // its index
  uint64_t run_ = 0;
  Membership membership_;
  std::vector<ShardAddress> addresses_;
  std::vector<uint64_t> ports_;  // by shard
  struct Connection {
    uint64_t number = 0;
    bool is_heard = true;  // by the shard
    bool hears = true;
  };
  std::vector<Connection> connections_;  // by shard
  std::vector<RoundReport> unanswered_;
  uint32_t ready_round_ = kRoundNever;
  std::optional<FinalReport> final_;
  bool validates_ = false;
  bool beating_ = false;
  bool urgent_ = false;
  bool stopped_ = false;
  uint64_t beats_ = 0;
  std::optional<longwave::Repair> repair_;
  std::vector<uint32_t> repaired_before_;  // by segment: rounds before need no repair any more

  uint32_t round_ = 0;                     // the one that is trained or synced, or would be next
  uint32_t fragment_ = 0;                  // likewise, of this round
  uint32_t reported_ = 0;                  // the round after the last one that it has reported
  std::vector<bool> heard_;                // by segment: it is up to date
  std::set<uint32_t> anew_;                // being repaired, and nothing has come yet
  std::vector<SegmentPush> posted_again_;  // what an earlier process encoded
  uint32_t awaited_ = 0;                   // posted and not settled
  bool missing_ = false;                   // the update of a segment is kept by nobody
  absl::Time last_news_;
  absl::Time last_asked_;
  uint64_t follows_ = 0;
  std::deque<SnapshotAsk> asks_;
  absl::Time wakes_at_ = absl::InfiniteFuture();
  std::set<uint32_t> damaged_;  // segments
  bool pumping_ = false;
  // Of canaries: each segment's last update, and what was sent.
  std::vector<Buffer> merged_before_;
  std::set<std::tuple<FrameKind, uint32_t, uint32_t>> sent_;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_SIM_WORKER_H_
