#include "worker/member/checkpoint_keeper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace longwave {

absl::Status CheckpointKeeper::Keep(uint32_t round, uint32_t fragment, const WorkerState& state,
                                    SyncPipeline& pipeline, TrainingLoop& loop,
                                    std::span<const SegmentPush> pushes) {
  const absl::Status written = Write(round, fragment, state, pipeline, loop, pushes);
  ++(written.ok() ? written_ : failed_);
  if (written.ok()) {
    if (std::exchange(failing_, false)) Log(LogLevel::kInfo, "checkpoints are written again");
    return written;
  }
  LONGWAVE_RETURN_IF_ERROR(Retire());
  if (!std::exchange(failing_, true)) {
    Log(LogLevel::kWarning,
        absl::StrCat("no checkpoint of round ", round, ": ", std::string(written.message()),
                     "; a crash from here on would cost this worker its residual"));
  }
  return absl::OkStatus();
}

absl::Status CheckpointKeeper::Write(uint32_t round, uint32_t fragment, const WorkerState& state,
                                     SyncPipeline& pipeline, TrainingLoop& loop,
                                     std::span<const SegmentPush> pushes) {
  Checkpoint checkpoint{.run = owner_.run,
                        .layout_hash = owner_.layout->hash(),
                        .name = owner_.name,
                        .worker = owner_.worker,
                        .round = round,
                        .fragment = fragment,
                        .step = state.step,
                        .tokens = state.tokens,
                        .seconds_computing = state.seconds_computing,
                        .seconds_syncing = state.seconds_syncing,
                        .bytes = state.bytes};
  LONGWAVE_RETURN_IF_ERROR(loop.SaveOptimizer(&checkpoint));
  LONGWAVE_ASSIGN_OR_RETURN(checkpoint.momentum, pipeline.ExportMomentum());
  checkpoint.accounted = pipeline.Accounted();
  for (const SegmentPush& push : pushes) {
    checkpoint.accounted[push.segment] = push.accounted;
    checkpoint.pushes.push_back({.segment = push.segment,
                                 .norm = push.norm,
                                 .weight = push.weight,
                                 .payload = push.payload});
  }
  std::ranges::sort(checkpoint.pushes, {}, &UnsettledPush::segment);
  return owner_.folder->Write(checkpoint);
}

std::optional<WorkerFolder::Found> CheckpointKeeper::Last() {
  if (!keeps()) return std::nullopt;
  absl::StatusOr<std::optional<WorkerFolder::Found>> found =
      owner_.folder->Read(owner_.run, owner_.name, owner_.worker, ShapeOf(*owner_.layout));
  if (found.ok()) return *std::move(found);
  Log(LogLevel::kWarning,
      absl::StrCat("no use of the last checkpoint: ", std::string(found.status().message())));
  return std::nullopt;
}

}  // namespace longwave
