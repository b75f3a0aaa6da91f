#ifndef LONGWAVE_TESTS_SIM_SIM_WORKER_H_
#define LONGWAVE_TESTS_SIM_SIM_WORKER_H_

#include <cstdint>
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
#include "tests/sim/environment.h"
#include "tests/sim/process.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_shard.h"
#include "tests/support/sim_file_system.h"
#include "worker/checkpoint/push_journal.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/core/session_core.h"
#include "worker/core/worker_core.h"
#include "worker/sync/pipeline.h"
#include "worker/sync/worker_ledger.h"

namespace longwave::sim {

// A worker's process: the real cores, pipeline, ledgers and checkpoints, with simulated calls,
// frames and steps. Signals are whole numbers drawn from the worker's stream.
class SimWorker final : public Process, public FrameReceiver {
 public:
  SimWorker(const Environment& env, const KernelOps* ops, SimCoordinator* coordinator,
            std::vector<SimShard*> shards, uint32_t place);

  void OnFrame(uint32_t shard, uint64_t connection, const WireFrame& frame) override;

  // Faults.
  void Slow(double factor, absl::Time until);
  void LoseFolder();
  // The worker ends at the next moment between two steps, leaving the run or not, and is restarted
  // after `away`.
  void ToldToEnd(absl::Duration away, bool leaves);
  void BackUp();
  // False: there is no backup, or the worker is down. True: the caller starts the worker.
  bool ComeBackFromBackUp();
  void Damage(uint64_t element);
  // The worker's connection to the shard dies unnoticed. Until it is replaced, the worker's frames
  // on it are lost and, unless one_way, the shard's as well.
  void KillConnection(uint32_t shard, bool one_way);

  std::string Describe() const;

  // Called at the end of a finished run: checks the replica itself.
  void CheckEnd() const;

  // Rounds of the segment in the replica; nothing: no replica yet.
  std::optional<uint32_t> rounds_of(uint32_t segment) const;
  bool catches_up() const { return has_core() && core().takes_fetched(); }
  // The worker trains, so a shard that has lost a segment can fetch it here.
  bool trains() const {
    return has_core() && !ends_ && (stage() == Stage::kComputing || stage() == Stage::kSyncing);
  }

 private:
  static constexpr char kWorkerFolder[] = "worker";

  std::string name() const { return absl::StrCat("worker-", place_); }

  struct Rank;
  using Stage = WorkerCore::Stage;
  Stage stage() const { return core().stage(); }
  bool has_core() const { return !ranks_.empty() && ranks_[0].core != nullptr; }
  const WorkerCore& core() const { return *ranks_[0].core; }
  NodeRank NodeOf(size_t rank) const {
    return {static_cast<uint32_t>(rank), static_cast<uint32_t>(ranks_.size())};
  }
  const Rank& OwnerOf(uint32_t segment) const;
  uint32_t anchor_round(uint32_t segment) const {
    return ranks_[0].pipeline->anchor_round(segment);
  }

  void OnStart() override;
  void OnCrash() override;

  // Control.
  void Join();
  void CallCoordinator();
  void TakeAnswer();
  void EndRefused(const absl::Status& refusal);
  void SetFolderAside();
  // Crashes and restarts, as a supervisor does.
  void CrashAndReturn(absl::Duration away = absl::Seconds(1));
  void End();
  float start() const { return env_.settings->starts[place_]; }
  void ConnectShards();

  // Core.
  void BeginWithShards();
  // Whether pushes go through a journal: of one device with a disk.
  bool HasJournal() const {
    return folder_ != nullptr && ranks_.size() == 1 && env_.settings->checkpoint_rounds > 0;
  }
  void RecoverAccount(const FoundCheckpoint& found);
  void BeginJournal(uint64_t write);
  // Aborted: the process dies meanwhile.
  absl::Status Record(const SegmentPush& push);
  void WriteInBackground(Checkpoint checkpoint);
  void EndWrite();
  void DrawDiskFaults();
  void DamageJournal();
  // By rank.
  std::vector<std::optional<FoundCheckpoint>> ReadCheckpoint();
  WorkerCoreOptions CoreOptions(const Rank& rank) const;
  Directive DirectiveNow() const;
  bool Feed();
  void NoteSettled(uint32_t round, uint32_t segment, Fate fate);
  Settled Disturbed(Settled settled) const;
  void OnFetched(FetchEvent event, size_t rank);
  bool Advance();
  // Advances all cores, which have to agree.
  absl::StatusOr<WorkerCore::Wish> AdvanceAll();
  absl::Status CarryOut();
  void OnStageChange(Stage before);
  // Effects of one rank. Rank 0 comes last, and does what is done once for the worker.
  absl::Status Do(RetireCheckpoint&, size_t rank);
  absl::Status Do(KeepCheckpoint& keep, size_t rank);
  absl::Status Do(SegmentPush& push, size_t rank);
  absl::Status Do(SettledNote& note, size_t rank);
  absl::Status Do(FetchWish& wish, size_t rank);
  absl::Status Do(FragmentApplied&, size_t rank);
  absl::Status Do(RoundReport& report, size_t rank);
  absl::Status Do(TellFinal& final, size_t rank);
  absl::Status Do(CoreNotice& notice, size_t rank);
  void NoteEncoded(uint32_t round, uint32_t segment, const Buffer& payload);
  void Compute();
  void EndStep();

  void Pump();

  // Data.
  size_t IndexOf(size_t rank, uint32_t shard) const { return rank * shards_.size() + shard; }
  void Reconnect(size_t rank, uint32_t shard);
  void RenewLost();
  void SendDue();
  void ServeRequests();
  void SendFrame(const OutgoingFrame& frame, size_t rank);

  std::span<const float> AnchorOf(uint32_t segment) const;
  void CheckCore();
  void CheckReplica();
  void CheckResidual();
  void Die(const absl::Status& status, const char* doing);

  const Environment env_;
  const KernelOps* const ops_;
  SimCoordinator* const coordinator_;
  const std::vector<SimShard*> shards_;
  const uint32_t place_;  // of this process in the world; its name is made of it
  Rng rng_;
  std::unique_ptr<SimFileSystem> disk_;
  Account kept_account_;     // account of the checkpoint on the disk
  Account kept_before_;      // and of the one before, which a crash may leave
  uint64_t kept_write_ = 0;  // of the account
  Rng disk_rng_;             // of what happens to the disk alone
  // Once each: the process dies in the midst of a write of its journal, or of a checkpoint; and a
  // record of its journal is damaged.
  bool tears_journal_ = false;
  bool halves_checkpoint_ = false;
  bool damages_journal_ = false;
  std::unique_ptr<SimFileSystem> backup_;
  Account backup_account_;
  bool is_from_backup_ = false;  // of the disk; a late push may delay the refusal
  bool crashed_after_fill_ = false;
  bool crashed_between_parts_ = false;
  double slowness_ = 1;
  absl::Time slow_until_ = absl::InfinitePast();

  // State of the process.
  uint64_t incarnation_ = 0;
  uint64_t identity_ = 0;
  std::unique_ptr<WorkerFolder> folder_;
  std::unique_ptr<PushJournal> journal_;
  std::vector<JournalRecord> notes_;   // appended with the next push
  std::optional<Checkpoint> written_;  // in the background
  Account written_account_;
  bool has_pushed_since_ = false;  // since the copy
  std::vector<float> theta_;
  // The ranks of a node, or one for a single device, whose cores take the same events at once.
  struct Rank {
    SegmentRange owned;
    std::unique_ptr<SyncPipeline> pipeline;
    std::unique_ptr<WorkerLedger> ledger;  // set once the run is known, likewise the core
    std::unique_ptr<WorkerCore> core;
  };
  std::vector<Rank> ranks_;
  Account account_;
  // Reported in worlds whose coordinator fits the interval.
  double seconds_computing_ = 0;
  double seconds_syncing_ = 0;
  std::optional<absl::Time> syncs_since_;

  uint32_t worker_ = 0;  // index of the worker
  std::unique_ptr<SessionCore> session_;
  absl::Time call_at_ = absl::InfiniteFuture();  // next check for a due call
  uint64_t endpoints_seen_ = 0;
  std::vector<uint64_t> ports_;  // by shard
  struct Connection {
    uint64_t number = 0;
    bool is_heard = true;  // by the shard
    bool hears = true;
  };
  std::vector<Connection> connections_;  // by rank and shard: IndexOf
  bool stopped_ = false;
  bool ends_ = false;  // as told by ToldToEnd
  bool leaves_ = false;
  absl::Duration away_;

  bool computing_ = false;              // a step is in progress
  std::set<uint32_t> kept_;             // segments whose pushes are in a checkpoint, and not posted
  std::vector<UnsettledPush> resumed_;  // pushes of the checkpoint until they are posted again
  uint32_t resumed_round_ = 0;
  std::vector<uint64_t> hashes_;  // of the round's report, from the ranks so far
  uint64_t writes_ = 0;           // checkpoints of this process
  std::vector<float> signal_;     // the change of θ since the last syncs
  std::set<uint32_t> damaged_;    // segments
  bool pumping_ = false;
  // For canaries: each segment's last update, and the frames sent.
  std::vector<Buffer> merged_before_;
  std::set<std::tuple<FrameKind, uint32_t, uint32_t>> sent_;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_SIM_WORKER_H_
