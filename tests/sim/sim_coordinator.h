#ifndef LONGWAVE_TESTS_SIM_SIM_COORDINATOR_H_
#define LONGWAVE_TESTS_SIM_SIM_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/rng.h"
#include "server/coordinator/coordinator.h"
#include "tests/sim/environment.h"
#include "tests/sim/process.h"

namespace longwave::sim {

// The real coordinator on simulated time, with its record on a disk that never fails: each change
// is in it before an answer leaves.
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

  // A backup of its record is taken, put in the record's place while the process is down, and the
  // record is put back, unless the backup has all epochs that were told: that one is gone on with.
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
  std::vector<CoordinatorEffect> Step(const CoordinatorEvent& event);
  void Note(const CoordinatorEffect& effect);
  void NoteEpoch(const Membership& membership);

  const Environment env_;
  Rng rng_;
  std::unique_ptr<Coordinator> core_;
  std::optional<CoordinatorRecord> record_;  // what is on the disk
  std::optional<CoordinatorRecord> copy_;
  std::optional<CoordinatorRecord> newest_;  // while an older one is in its place
  bool had_older_record_ = false;
  RunPhase phase_ = RunPhase::kWaiting;
  std::string reason_;
  uint64_t rounds_finished_ = 0;
  uint32_t epoch_ = 0;  // the newest that anybody was told
  uint32_t newest_epoch_size_ = 0;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_SIM_COORDINATOR_H_
