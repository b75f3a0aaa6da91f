#include "worker/member/checkpoint_keeper.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/checkpoint/checkpoint_parts.h"
#include "worker/member/member.h"

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

CheckpointKeeper::CheckpointKeeper(const MemberParts& parts)
    : owner_(parts),
      place_(parts.folder == nullptr ? parts.shared_folder
                                     : SharedFolder{parts.folder->files(), parts.folder->path()}) {}

absl::Status CheckpointKeeper::Keep(KeepCheckpoint keep, const WorkerState& state,
                                    TrainingLoop& loop) {
  const absl::Status written = Write(Complete(state, loop, &keep.checkpoint), keep.checkpoint);
  // A node that lacks a rank posts nothing more, so the checkpoint before is as good as it was.
  if (owner_.node != nullptr) LONGWAVE_RETURN_IF_ERROR(owner_.node->failure());
  ++(written.ok() ? written_ : failed_);
  if (written.ok()) {
    if (std::exchange(failing_, false)) Log(LogLevel::kInfo, "checkpoints are written again");
    return written;
  }
  if (!keep.is_last) LONGWAVE_RETURN_IF_ERROR(Retire());
  if (!std::exchange(failing_, true)) {
    Warn(absl::StrCat("no checkpoint of round ", keep.checkpoint.round, ": ", written.message(),
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

absl::Status CheckpointKeeper::Complete(const WorkerState& state, TrainingLoop& loop,
                                        Checkpoint* checkpoint) const {
  checkpoint->run = owner_.run;
  checkpoint->name = owner_.name;
  checkpoint->worker = owner_.worker;
  checkpoint->seconds_computing = state.seconds_computing;
  checkpoint->seconds_syncing = state.seconds_syncing;
  checkpoint->bytes = state.bytes;
  return loop.Save(&checkpoint->blobs);
}

absl::Status CheckpointKeeper::Write(const absl::Status& completed, Checkpoint& checkpoint) {
  if (owner_.node != nullptr) return WritePart(completed, checkpoint);
  LONGWAVE_RETURN_IF_ERROR(completed);
  LONGWAVE_RETURN_IF_ERROR(owner_.folder->Write(checkpoint));
  // Parts are of a time when this worker was a node.
  return written_ > 0 ? absl::OkStatus() : RemovePartsBut(*place_.files, place_.path, /*write=*/0);
}

absl::Status CheckpointKeeper::WritePart(absl::Status status, Checkpoint& checkpoint) {
  Node& node = *owner_.node;
  checkpoint.node = node.rank();
  // Equal at all ranks, and of no earlier checkpoint of the folder.
  checkpoint.write = node.process() << 32 | (written_ + failed_ + 1);
  const absl::Duration patience = DiskPatience(node, BytesOf(checkpoint));
  if (status.ok() && owner_.folder == nullptr)
    status = WriteCheckpointPart(*place_.files, place_.path, checkpoint);
  LONGWAVE_RETURN_IF_ERROR(node.Agree(status, patience));
  if (owner_.folder != nullptr) {
    status = owner_.folder->Write(checkpoint);
    if (status.ok()) status = RemovePartsBut(*place_.files, place_.path, checkpoint.write);
  }
  return node.Agree(status, patience);
}

absl::StatusOr<std::optional<FoundCheckpoint>> CheckpointKeeper::Last() {
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
  absl::StatusOr<std::optional<FoundCheckpoint>> found =
      ReadPartOfLast(*place_.files, place_.path, owner_.run, owner_.name, owner_.worker,
                     *owner_.layout, owner_.node == nullptr ? NodeRank{} : owner_.node->rank());
  // The part of one rank alone may be missing, of a checkpoint that is stale: then there is none.
  const bool is_absent = found.ok() && !found->has_value();
  const absl::Status agreed = agree(is_absent ? NotFound("no checkpoint") : found.status());
  if (is_absent) return std::nullopt;
  if (found.ok() && !agreed.ok()) found = agreed;
  if (found.ok() || absl::IsFailedPrecondition(found.status()) ||
      absl::IsUnavailable(found.status())) {
    return found;
  }
  Warn(absl::StrCat("no use of the last checkpoint: ", found.status().message()));
  return std::nullopt;
}

void CheckpointKeeper::Warn(const std::string& text) const {
  Log(LogLevel::kWarning, text);
  owner_.control->Warn(text);
}

}  // namespace longwave
