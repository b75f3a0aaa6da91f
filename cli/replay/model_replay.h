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
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "server/store/snapshot_format.h"
#include "worker/member/schedule.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// The parameters that all replicas share, made again segment by segment from where they began, or
// from a snapshot, and the merged updates after it: by the same code that every worker runs.
class ModelReplay {
 public:
  // The content of a model snapshot (DecodeModelContent has its form).
  using LoadModel = std::function<absl::StatusOr<Buffer>(const SnapshotHeader& header)>;

  // config and layout outlive it; CanCatchUp(config). initial: the weights before round 0; empty:
  // they are not known, and a segment begins with a snapshot.
  static absl::StatusOr<std::unique_ptr<ModelReplay>> Create(const RunConfig* config,
                                                             const Layout* layout,
                                                             std::vector<float> initial,
                                                             uint32_t threads);

  // A shard's snapshots, before its updates.
  void AddModels(const std::vector<SnapshotHeader>& snapshots, const LoadModel& load);
  // The segment's next update, rounds ascending. What came before its first known state is passed
  // over. Errors: a snapshot or an update that cannot be read.
  absl::Status Apply(uint32_t segment, uint32_t round, const Buffer& merged);

  // From now on: what the segments make after these rounds is remembered, for HashAfter.
  void Remember(const std::vector<uint32_t>& rounds);
  // Of the whole state after a round; nothing: not every segment of it could be made.
  std::optional<uint64_t> HashAfter(uint32_t round) const;

  // Snapshots that were held against what the updates had made of the segment, and sentences about
  // those that were something else.
  uint64_t models_compared() const { return models_compared_; }
  const std::vector<std::string>& problems() const { return problems_; }

  struct Result {
    uint32_t rounds = 0;  // that are in it
    uint64_t state_hash = 0;
  };
  // FailedPrecondition, with the reason: some segment is not known, or they are at different
  // rounds.
  absl::StatusOr<Result> Finish();
  const std::vector<float>& theta() const { return theta_; }  // after Finish

 private:
  ModelReplay(const RunConfig* config, const Layout* layout);
  double LearningRate(uint32_t segment, uint32_t round) const;
  // The state before `round`: held against what is known, or taken.
  absl::Status TakeModel(uint32_t segment, uint32_t round);

  const RunConfig* const config_;
  const Layout* const layout_;
  const Schedule schedule_;
  const SyncPlan plan_;
  std::vector<float> theta_;
  std::vector<float> gradient_;  // asked for under a gradient signal, and never used here
  std::unique_ptr<SyncPipeline> pipeline_;
  std::vector<bool> known_;    // by segment
  std::vector<bool> applied_;  // by segment: an update, since its beginning
  struct Model {
    SnapshotHeader header;
    LoadModel load;
  };
  std::map<std::pair<uint32_t, uint32_t>, Model> models_;  // by segment and round
  // By remembered round, then segment: the hash and whether there is one.
  std::map<uint32_t, std::vector<std::optional<uint64_t>>> hashes_;
  uint64_t models_compared_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPLAY_MODEL_REPLAY_H_
