#ifndef LONGWAVE_CLI_REPLAY_MODEL_REPLAY_H_
#define LONGWAVE_CLI_REPLAY_MODEL_REPLAY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "server/store/snapshot_format.h"
#include "worker/member/schedule.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// Recomputes the parameters that all replicas share, segment by segment: from the initial weights
// or a snapshot, by the merged updates after it, with the workers' code.
class ModelReplay {
 public:
  // Loads the content of a model snapshot (DecodeModelContent has its form).
  using LoadModel = std::function<absl::StatusOr<Buffer>(const SnapshotHeader& header)>;

  // config and layout outlive the object; CanCatchUp(config). initial: the weights before round 0;
  // empty: not known, so that each segment begins with a snapshot. until: later updates are
  // skipped.
  static absl::StatusOr<std::unique_ptr<ModelReplay>> Create(
      const RunConfig* config, const Layout* layout, std::vector<float> initial, uint32_t threads,
      uint32_t until = kRoundNever, const Intervals& intervals = {});

  // Adds a shard's snapshots; call before the shard's updates.
  void AddModels(const std::vector<SnapshotHeader>& snapshots, const LoadModel& load);
  // Applies the segment's next update, rounds ascending. Updates before the segment's first known
  // state are skipped. Errors: a snapshot or an update that cannot be read.
  absl::Status Apply(uint32_t segment, uint32_t round, const Buffer& merged);
  // The segment's next update is of a later round: a snapshot before it continues.
  void Forget(uint32_t segment) {
    if (segment < known_.size()) known_[segment] = false;
  }

  // Stores the segments' hashes after these rounds, from now on, for HashAfter.
  void Remember(const std::vector<uint32_t>& rounds);
  // The hash of the whole state after a round; nullopt if a segment's hash is missing.
  std::optional<uint64_t> HashAfter(uint32_t round) const;

  // Snapshots that were compared with the recomputed segment, and a sentence for each difference.
  uint64_t models_compared() const { return models_compared_; }
  const std::vector<std::string>& problems() const { return problems_; }

  struct Result {
    uint32_t rounds = 0;  // rounds in the state
    uint64_t state_hash = 0;
  };
  // Errors: FailedPrecondition, with the reason (a segment is not known, or segments are at
  // different rounds).
  absl::StatusOr<Result> Finish();
  // The rounds that all segments have; nullopt if a segment is not known.
  std::optional<uint32_t> rounds_of_all() const;
  const std::vector<float>& theta() const { return theta_; }  // after Finish

 private:
  ModelReplay(const RunConfig* config, const Layout* layout, SyncPlan plan, uint32_t until);
  double LearningRate(uint32_t segment, uint32_t round) const;
  // Compares the snapshot before `round` with the known state, or starts from it.
  absl::Status OnSnapshot(uint32_t segment, uint32_t round);

  const RunConfig* const config_;
  const Layout* const layout_;
  const Schedule schedule_;
  const SyncPlan plan_;
  const uint32_t until_;
  std::vector<float> theta_;
  std::vector<float> gradient_;  // a gradient signal requires it; never used here
  std::unique_ptr<SyncPipeline> pipeline_;
  std::vector<bool> known_;    // by segment
  std::vector<bool> applied_;  // by segment: had an update since its beginning
  struct Model {
    SnapshotHeader header;
    LoadModel load;
  };
  std::map<std::pair<uint32_t, uint32_t>, Model> models_;  // by segment and round
  // By remembered round, then segment; nullopt if not known.
  std::map<uint32_t, std::vector<std::optional<uint64_t>>> hashes_;
  uint64_t models_compared_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPLAY_MODEL_REPLAY_H_
