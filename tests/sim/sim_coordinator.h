#ifndef LONGWAVE_TESTS_SIM_SIM_COORDINATOR_H_
#define LONGWAVE_TESTS_SIM_SIM_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/rng.h"
#include "server/coordinator/coordinator.h"
#include "server/store/coordinator_store.h"
#include "tests/sim/environment.h"
#include "tests/sim/lying_file_system.h"
#include "tests/sim/process.h"
#include "tests/support/sim_file_system.h"

namespace longwave::sim {

// The real coordinator on simulated time, and its record in the real store on a simulated disk.
class SimCoordinator final : public Process {
 public:
  explicit SimCoordinator(const Environment& env);

  // A call from `client` over the network. Unavailable: no answer within kCallPatience. `done` runs
  // in the client, unless the process that called has died.
  using Done = std::function<void(absl::StatusOr<CoordinatorEffect>)>;
  void Call(Process& client, CoordinatorEvent event, Done done);

  // Of the run: as the last process here had it.
  RunPhase phase() const { return phase_; }
  bool is_over() const { return phase_ != RunPhase::kWaiting && phase_ != RunPhase::kTraining; }
  bool EveryoneToldOfTheEnd() const { return core_ != nullptr && core_->EveryoneToldOfTheEnd(); }
  const std::string& reason() const { return reason_; }
  uint64_t rounds_finished() const { return rounds_finished_; }
  std::string trouble() const;
  // What its record says of the log in that folder, which a shard has; 0: nothing.
  uint64_t LogRecordsOf(uint32_t shard, uint64_t folder) const;

  // A crash that takes the machine with it.
  void LosePower();
  SimFaults& disk_faults() { return disk_->faults; }
  const SimFileSystem& disk() const { return *disk_; }
  // Whether the machine stops with a process that the disk's faults stop in a write.
  void set_write_crash_is_power(bool is_power) { write_crash_is_power_ = is_power; }
  // Has it started again later.
  std::function<void()> on_write_crash;

  // A backup of its folder is taken, put in the folder's place while the process is down, and the
  // folder is put back, unless the backup has all epochs that were told: that one is gone on with.
  void CopyRecord();
  bool PutCopyBack();
  void PutNewestBack();
  bool has_older_record() const { return newest_.has_value(); }
  bool had_older_record() const { return had_older_record_; }

  static constexpr absl::Duration kCallPatience = absl::Seconds(2);

 private:
  void OnStart() override;
  void OnCrash() override;
  void TickForEver();
  // What it did, once that is durable. Otherwise a refusal; or nothing, as the process has ended.
  std::vector<CoordinatorEffect> Step(const CoordinatorEvent& event);
  absl::Status Commit();
  void UseDisk(std::unique_ptr<SimFileSystem> disk);
  bool EndIfStopped();
  void StartAgain();
  void Note(const CoordinatorEffect& effect);
  // The first worker's weights are the run's.
  void NoteStart(const Membership& membership);
  void NoteEpoch(const Membership& membership);

  const Environment env_;
  Rng rng_;
  struct Folder {
    std::unique_ptr<SimFileSystem> disk;
    CoordinatorState saved;
  };

  Rng disk_rng_;
  std::unique_ptr<SimFileSystem> disk_;
  std::unique_ptr<LyingFileSystem> lying_;  // in front of it
  SimFileSystem::Stop next_stop_ = SimFileSystem::Stop::kProcess;
  bool write_crash_is_power_ = false;
  std::unique_ptr<CoordinatorStore> store_;  // null: the process is down, or keeps nothing
  std::unique_ptr<Coordinator> core_;
  CoordinatorState saved_;                  // as it was last made durable
  std::vector<CoordinatorEffect> unnoted_;  // of steps that are not durable yet; no answers
  std::optional<Folder> copy_;
  std::optional<Folder> newest_;  // while an older one is in its place
  bool had_older_record_ = false;
  RunPhase phase_ = RunPhase::kWaiting;
  std::string reason_;
  uint64_t rounds_finished_ = 0;
  bool knows_start_ = false;  // the checker does
  uint32_t epoch_ = 0;        // the newest that anybody was told
  uint32_t newest_epoch_size_ = 0;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_SIM_COORDINATOR_H_
