#include "worker/member/checkpoint_keeper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace longwave {

absl::Status CheckpointKeeper::Keep(const KeepCheckpoint& keep, const WorkerState& state,
                                    SyncPipeline& pipeline, TrainingLoop& loop) {
  const absl::Status written = Write(keep, state, pipeline, loop);
  ++(written.ok() ? written_ : failed_);
  if (written.ok()) {
    if (std::exchange(failing_, false)) Log(LogLevel::kInfo, "checkpoints are written again");
    return written;
  }
  if (!keep.is_last) LONGWAVE_RETURN_IF_ERROR(Retire());
  if (!std::exchange(failing_, true)) {
    Log(LogLevel::kWarning,
        absl::StrCat("no checkpoint of round ", keep.round, ": ", std::string(written.message()),
                     keep.is_last ? "; the one before stays as it is"
                                  : "; a crash from here on would cost this worker its residual"));
  }
  return absl::OkStatus();
}

absl::Status CheckpointKeeper::Write(const KeepCheckpoint& keep, const WorkerState& state,
                                     SyncPipeline& pipeline, TrainingLoop& loop) {
  Checkpoint checkpoint{.run = owner_.run,
                        .layout_hash = owner_.layout->hash(),
                        .name = owner_.name,
                        .worker = owner_.worker,
                        .round = keep.round,
                        .fragment = keep.fragment,
                        .step = state.step,
                        .tokens = state.tokens,
                        .seconds_computing = state.seconds_computing,
                        .seconds_syncing = state.seconds_syncing,
                        .bytes = state.bytes};
  LONGWAVE_RETURN_IF_ERROR(loop.Save(&checkpoint.blobs));
  checkpoint.accounted = pipeline.Accounted();
  std::vector<uint32_t> unsettled;
  for (const SegmentPush& push : keep.pushes) {
    unsettled.push_back(push.segment);
    checkpoint.accounted[push.segment] = push.accounted;
    checkpoint.pushes.push_back({.segment = push.segment,
                                 .norm = push.norm,
                                 .weight = push.weight,
                                 .payload = push.payload});
  }
  LONGWAVE_ASSIGN_OR_RETURN(checkpoint.momentum, pipeline.ExportMomentum(unsettled));
  std::ranges::sort(checkpoint.pushes, {}, &UnsettledPush::segment);
  return owner_.folder->Write(checkpoint);
}

absl::StatusOr<std::optional<WorkerFolder::Found>> CheckpointKeeper::Last() {
  if (!keeps()) return std::nullopt;
  absl::StatusOr<std::optional<WorkerFolder::Found>> found =
      owner_.folder->Read(owner_.run, owner_.name, owner_.worker, ShapeOf(*owner_.layout));
  if (found.ok() || absl::IsFailedPrecondition(found.status())) return found;
  Log(LogLevel::kWarning,
      absl::StrCat("no use of the last checkpoint: ", std::string(found.status().message())));
  return std::nullopt;
}

}  // namespace longwave
