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
#include "tests/sim/disk_process.h"

namespace longwave::sim {

// The real coordinator on simulated time, and its record in the real store on a simulated disk.
class SimCoordinator final : public DiskProcess {
 public:
  explicit SimCoordinator(const Environment& env);

  // A call from `client` over the network. `done` runs in the client, unless the calling process
  // has died. Unavailable: no answer within kCallPatience.
  using Done = std::function<void(absl::StatusOr<CoordinatorEffect>)>;
  void Call(Process& client, CoordinatorEvent event, Done done);

  // State of the run in the last process here.
  RunPhase phase() const { return phase_; }
  bool is_over() const { return IsOver(phase_); }
  bool EveryoneToldOfTheEnd() const { return core_ != nullptr && core_->EveryoneToldOfTheEnd(); }
  const std::string& reason() const { return reason_; }
  uint64_t rounds_finished() const { return rounds_finished_; }
  std::string trouble() const;
  // Length of the log in that folder of the shard, by the record; 0: unknown.
  uint64_t LogRecordsOf(uint32_t shard, uint64_t folder) const;

  // CopyRecord takes a backup of the folder. PutCopyBack replaces the folder by it while the
  // process is down, and PutNewestBack restores the newest. A backup with all sent epochs stays,
  // since the run goes on from it.
  void CopyRecord();
  // is_cluster: the shards' folders are from an older time as well.
  bool PutCopyBack(bool is_cluster = false);
  void PutNewestBack();
  bool has_copy() const { return copy_.has_value(); }
  bool has_older_record() const { return newest_.has_value(); }
  bool had_older_record() const { return had_older_record_; }

  static constexpr absl::Duration kCallPatience = absl::Seconds(2);

 private:
  void OnStart() override;
  void OnCrash() override;
  void TickForEver();
  // The effects of a durable step. Otherwise a refusal, or nothing if the process has ended.
  std::vector<CoordinatorEffect> Step(const CoordinatorEvent& event);
  absl::Status Commit();
  void Note(const CoordinatorEffect& effect);
  // The first worker's weights become the run's.
  void NoteStart(const Membership& membership);
  void NoteEpoch(const Membership& membership);

  Rng rng_;
  struct Folder {
    std::unique_ptr<SimFileSystem> disk;
    CoordinatorState saved;
  };

  Rng disk_rng_;
  std::unique_ptr<CoordinatorStore> store_;  // null: the process is down, or has no store
  std::unique_ptr<Coordinator> core_;
  CoordinatorState saved_;  // the last durable state
  // Effects of steps that are not durable yet, without answers.
  std::vector<CoordinatorEffect> unnoted_;
  std::optional<Folder> copy_;
  std::optional<Folder> newest_;  // set while an older one replaces it
  bool had_older_record_ = false;
  RunPhase phase_ = RunPhase::kWaiting;
  std::string reason_;
  uint64_t rounds_finished_ = 0;
  bool knows_start_ = false;  // the checker knows the start
  uint32_t epoch_ = 0;        // the newest that was sent
  uint32_t newest_epoch_size_ = 0;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_SIM_COORDINATOR_H_
