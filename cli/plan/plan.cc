#include "cli/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/plan/segment_sizes.h"
#include "cli/plan/sync_time.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/layout/layout.h"
#include "common/link/sealed_frame.h"
#include "common/wire/snapshot_payload.h"
#include "worker/models/memory.h"

namespace longwave {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kGigabyte = 1e9;

class Planner {
 public:
  Planner(const PlanInputs& inputs, Layout layout)
      : in_(inputs),
        config_(inputs.config),
        layout_(std::move(layout)),
        header_(static_cast<double>(FrameWireBytes(0, EncryptionOf(config_)))) {}

  absl::StatusOr<Plan> Make() {
    LONGWAVE_RETURN_IF_ERROR(CheckCounts());
    LONGWAVE_ASSIGN_OR_RETURN(sizes_, SizesOf(config_, layout_));
    plan_.method = config_.run.preset;
    plan_.parameters = static_cast<double>(layout_.parameter_count());
    plan_.segments = sizes_.size();
    plan_.workers = config_.run.workers;
    SyncTime time = TimeSync(in_, layout_, sizes_);
    plan_.parts = std::move(time.parts);
    plan_.sync_s = time.sync_s;
    plan_.hidden_s = time.hidden_s;
    ChooseInterval();
    CountRounds();
    CountBytes();
    CountTime();
    CountMemory();
    return std::move(plan_);
  }

 private:
  absl::Status CheckCounts() const {
    uint64_t workers = 0;
    for (const PlanWorkers& each : in_.workers) workers += each.count;
    if (workers != config_.run.workers || workers == 0) {
      return InvalidArgument("got ", workers, " workers with links, wanted run.workers, which is ",
                             config_.run.workers);
    }
    if (in_.shards.size() == config_.run.shards) return absl::OkStatus();
    return InvalidArgument("got ", in_.shards.size(),
                           " shards with links, wanted run.shards, which is ", config_.run.shards);
  }

  void ChooseInterval() {
    const SyncSection& sync = config_.sync;
    if (sync.signal == SignalKind::kPseudoGradient && SlowestStep(in_) > 0) {
      const double wanted = std::ceil(plan_.held_s() * (1 - sync.target_share) /
                                      (sync.target_share * SlowestStep(in_)));
      plan_.wanted_inner_steps = wanted;
      plan_.auto_inner_steps =
          std::clamp<double>(wanted, sync.inner_steps_min, sync.inner_steps_max);
    }
    plan_.inner_steps = FitsInterval(config_)
                            ? plan_.auto_inner_steps.value_or(sync.inner_steps_min)
                            : sync.inner_steps;
  }

  void CountRounds() {
    const double step_tokens =
        static_cast<double>(config_.run.workers) * config_.train.batch * config_.model.context;
    plan_.steps = in_.tokens > 0 && step_tokens > 0 ? std::ceil(in_.tokens / step_tokens)
                                                    : static_cast<double>(config_.run.steps);
    plan_.tokens = plan_.steps * step_tokens;
    plan_.rounds = std::ceil(plan_.steps / plan_.inner_steps);
  }

  // Snapshots of a segment in the run: DurableShard wants one each cluster.snapshot_rounds rounds,
  // the segments' turns spread over them.
  double SnapshotsOf(size_t segment) const {
    if (!in_.keeps_state || !CanCatchUp(config_)) return 0;
    const double interval = config_.cluster.snapshot_rounds;
    const double first =
        std::floor(static_cast<double>(segment) * interval / static_cast<double>(sizes_.size()));
    const double turns = std::ceil((plan_.rounds - first) / interval);  // rounds first, first + …
    return std::max(0.0, first == 0 ? turns - 1 : turns);  // there is none before round 0
  }

  void CountBytes() {
    double snapshot_count = 0;
    for (size_t s = 0; s < sizes_.size(); ++s) {
      plan_.round.up += sizes_[s].push_frame;
      plan_.round.down += sizes_[s].merged_frame + header_;  // and the push's answer
      const auto payload = static_cast<size_t>(kSnapshotPayloadHeadBytes + sizes_[s].state);
      plan_.snapshot_bytes +=
          SnapshotsOf(s) * static_cast<double>(FrameWireBytes(payload, EncryptionOf(config_)));
      snapshot_count += SnapshotsOf(s);
    }
    plan_.down_is_a_bound = config_.run.workers > 1 &&
                            config_.sync.down.selection == Selection::kAll &&
                            config_.sync.up.selection == Selection::kTopK;
    const double hellos =
        header_ * config_.run.workers * config_.run.shards * config_.cluster.connections;
    plan_.run.up =
        config_.run.workers * plan_.rounds * plan_.round.up + hellos + plan_.snapshot_bytes;
    // A snapshot's request and its answer.
    plan_.run.down = config_.run.workers * plan_.rounds * plan_.round.down + hellos +
                     2 * header_ * snapshot_count;
  }

  void CountTime() {
    const double computing = plan_.inner_steps * SlowestStep(in_);
    plan_.round_s = computing + plan_.held_s();
    for (const PlanWorkers& each : in_.workers) {
      plan_.compute_share +=
          each.count * plan_.inner_steps * each.step_s / plan_.round_s / plan_.workers;
    }
    plan_.run_s = plan_.steps * SlowestStep(in_) + plan_.rounds * plan_.held_s();
    if (in_.prices.worker_hour > 0 || in_.prices.sent_gigabyte > 0) {
      plan_.price = plan_.workers * plan_.run_s / kSecondsPerHour * in_.prices.worker_hour +
                    (plan_.run.up + plan_.run.down) / kGigabyte * in_.prices.sent_gigabyte;
    }
  }

  void CountMemory() {
    const MemoryNeed own = WorkerMemory(config_, in_.manifest);
    plan_.worker_memory_bytes = plan_.worker_gpu_memory_bytes = own.bytes;
    plan_.worker_host_memory_bytes = HostMemory(config_, in_.manifest).bytes;
    if (in_.keeps_state && CanCatchUp(config_) && config_.cluster.checkpoint_rounds > 0) {
      const double checkpoint = CheckpointBytes(config_, in_.manifest);
      plan_.worker_memory_bytes += checkpoint;
      plan_.worker_host_memory_bytes += checkpoint;
      plan_.worker_disk_bytes = 2 * checkpoint;  // old and new exist for a while
    }
    // The log reaches back two intervals of snapshots, and two of these are kept.
    const double logged_rounds = CanCatchUp(config_)
                                     ? std::min(plan_.rounds, 2.0 * config_.cluster.snapshot_rounds)
                                     : plan_.rounds;
    std::vector<double> memory(in_.shards.size(), 0), disk = memory;
    for (const SegmentSizes& size : sizes_) {
      const double pushes = plan_.workers * size.push_payload;
      memory[size.shard] += size.residual + pushes + size.merged_payload;
      if (!in_.keeps_state) continue;
      disk[size.shard] += logged_rounds * (pushes + size.merged_payload) + 2 * size.residual;
      if (CanCatchUp(config_)) disk[size.shard] += 2 * size.state;
    }
    plan_.shard_memory_bytes = std::ranges::max(memory);
    plan_.shard_disk_bytes = std::ranges::max(disk);
  }

  const PlanInputs& in_;
  const RunConfig& config_;
  const Layout layout_;
  const double header_;  // of a frame without payload
  std::vector<SegmentSizes> sizes_;
  Plan plan_;
};

}  // namespace

std::string Name(const PlanPart& part) {
  switch (part.kind) {
    case PlanPart::Kind::kEncode:
      return "encode";
    case PlanPart::Kind::kJournal:
      return "journal";
    case PlanPart::Kind::kWorkerUp:
      return "workers' links up";
    case PlanPart::Kind::kShardIn:
      return absl::StrCat("shard ", part.shard, "'s link in");
    case PlanPart::Kind::kMerge:
      return "merge";
    case PlanPart::Kind::kShardOut:
      return absl::StrCat("shard ", part.shard, "'s link out");
    case PlanPart::Kind::kWorkerDown:
      return "workers' links down";
    case PlanPart::Kind::kDecode:
      return "decode";
    case PlanPart::Kind::kRoundTrips:
      return "round trips";
  }
  return "";
}

const PlanPart& Plan::Binding() const {
  return *std::ranges::max_element(parts, {}, &PlanPart::seconds);
}

absl::StatusOr<Plan> MakePlan(const PlanInputs& inputs) {
  LONGWAVE_ASSIGN_OR_RETURN(
      Layout layout,
      Layout::Create(inputs.manifest, LayoutOptionsFor(inputs.config, inputs.manifest)));
  return Planner(inputs, std::move(layout)).Make();
}

}  // namespace longwave
