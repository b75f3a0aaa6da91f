#include "worker/member/checkpoint_keeper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/checkpoint/checkpoint_parts.h"

namespace longwave {
namespace {

// A rank that writes or reads so slowly counts as one that hangs.
constexpr double kDiskBytesPerSecondMin = 10e6;
// Of all that a checkpoint has of a parameter: its momentum, and what the loop keeps.
constexpr double kBytesOfAParameterMax = 32;

// How long a rank waits for another one that uses the disk.
absl::Duration DiskPatience(const Node& node, double bytes) {
  return node.patience() + absl::Seconds(bytes / kDiskBytesPerSecondMin);
}

double BytesOf(const Checkpoint& checkpoint) {
  double bytes = static_cast<double>(checkpoint.momentum.size() * sizeof(float));
  for (const auto& blob : checkpoint.blobs) bytes += static_cast<double>(blob.bytes.size());
  for (const UnsettledPush& push : checkpoint.pushes)
    bytes += static_cast<double>(push.payload.size());
  return bytes;
}

}  // namespace

absl::Status CheckpointKeeper::Keep(const KeepCheckpoint& keep, const WorkerState& state,
                                    SyncPipeline& pipeline, TrainingLoop& loop) {
  const absl::Status written = Write(keep, state, pipeline, loop);
  // A node that lacks a rank posts nothing more, so the checkpoint before is as good as it was.
  if (owner_.node != nullptr) LONGWAVE_RETURN_IF_ERROR(owner_.node->failure());
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

absl::Status CheckpointKeeper::Retire() {
  const absl::Status retired =
      owner_.folder == nullptr ? absl::OkStatus() : owner_.folder->Retire();
  return owner_.node == nullptr ? retired : owner_.node->Agree(retired);
}

absl::Status CheckpointKeeper::Write(const KeepCheckpoint& keep, const WorkerState& state,
                                     SyncPipeline& pipeline, TrainingLoop& loop) {
  absl::StatusOr<Checkpoint> checkpoint = Make(keep, state, pipeline, loop);
  if (owner_.node != nullptr) return WritePart(std::move(checkpoint));
  LONGWAVE_RETURN_IF_ERROR(checkpoint.status());
  LONGWAVE_RETURN_IF_ERROR(owner_.folder->Write(*checkpoint));
  // Parts are of a time when this worker was a node.
  return written_ > 0 ? absl::OkStatus() : RemovePartsBut(*place_.files, place_.path, /*write=*/0);
}

absl::Status CheckpointKeeper::WritePart(absl::StatusOr<Checkpoint> checkpoint) {
  Node& node = *owner_.node;
  // Equal at all ranks, and of no earlier checkpoint of the folder.
  const uint64_t write = node.process() << 32 | (written_ + failed_ + 1);
  absl::Status status = checkpoint.status();
  const absl::Duration patience = DiskPatience(node, status.ok() ? BytesOf(*checkpoint) : 0);
  if (status.ok()) {
    checkpoint->node = node.rank();
    checkpoint->write = write;
    if (owner_.folder == nullptr)
      status = WriteCheckpointPart(*place_.files, place_.path, *checkpoint);
  }
  LONGWAVE_RETURN_IF_ERROR(node.Agree(status, patience));
  if (owner_.folder != nullptr) {
    status = owner_.folder->Write(*checkpoint);
    if (status.ok()) status = RemovePartsBut(*place_.files, place_.path, write);
  }
  return node.Agree(status, patience);
}

absl::StatusOr<Checkpoint> CheckpointKeeper::Make(const KeepCheckpoint& keep,
                                                  const WorkerState& state, SyncPipeline& pipeline,
                                                  TrainingLoop& loop) const {
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
    checkpoint.accounted[push.segment] = push.accounted;
    unsettled.push_back(push.segment);
    checkpoint.pushes.push_back({.segment = push.segment,
                                 .norm = push.norm,
                                 .weight = push.weight,
                                 .payload = push.payload});
  }
  LONGWAVE_ASSIGN_OR_RETURN(checkpoint.momentum, pipeline.ExportMomentum(unsettled));
  std::ranges::sort(checkpoint.pushes, {}, &UnsettledPush::segment);
  return checkpoint;
}

absl::StatusOr<std::optional<WorkerFolder::Found>> CheckpointKeeper::Last() {
  const double bytes =
      kBytesOfAParameterMax * static_cast<double>(owner_.layout->parameter_count());
  const auto agree = [&](const absl::Status& mine) {
    return owner_.node == nullptr ? mine
                                  : owner_.node->Agree(mine, DiskPatience(*owner_.node, bytes));
  };
  if (!keeps()) {
    LONGWAVE_RETURN_IF_ERROR(agree(absl::OkStatus()));
    return std::nullopt;
  }
  absl::StatusOr<std::optional<WorkerFolder::Found>> found = Read();
  const absl::Status agreed = agree(found.status());
  if (found.ok() && !agreed.ok()) found = agreed;
  if (found.ok() || absl::IsFailedPrecondition(found.status()) ||
      absl::IsUnavailable(found.status())) {
    return found;
  }
  Log(LogLevel::kWarning,
      absl::StrCat("no use of the last checkpoint: ", std::string(found.status().message())));
  return std::nullopt;
}

absl::StatusOr<std::optional<WorkerFolder::Found>> CheckpointKeeper::Read() {
  const CheckpointShape shape = ShapeOf(*owner_.layout);
  LONGWAVE_ASSIGN_OR_RETURN(std::optional<WorkerFolder::Found> found,
                            ReadLastCheckpoint(*place_.files, place_.path, owner_.run, owner_.name,
                                               owner_.worker, shape));
  const NodeRank here = owner_.node == nullptr ? NodeRank{} : owner_.node->rank();
  if (!found.has_value() || (here.is_alone() && found->checkpoint.node.is_alone())) return found;
  LONGWAVE_ASSIGN_OR_RETURN(
      std::vector<Checkpoint> parts,
      ReadParts(*place_.files, place_.path, std::move(found->checkpoint), shape));
  LONGWAVE_ASSIGN_OR_RETURN(found->checkpoint, PartOf(std::move(parts), *owner_.layout, here));
  return found;
}

}  // namespace longwave
