#include "worker/member/checkpoint_keeper.h"

#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/checkpoint/checkpoint_parts.h"
#include "worker/checkpoint/recovery.h"
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
                                     : SharedFolder{parts.folder->files(), parts.folder->path()}),
      has_journal_(parts.folder != nullptr && parts.node == nullptr &&
                   parts.config->cluster.checkpoint_rounds > 0) {
  if (!has_journal_) return;
  writer_ = std::make_unique<CheckpointWriter>(CheckpointWriterOptions{
      .folder = parts.folder,
      .exchange = parts.exchange,
      .header = {.run = parts.run, .layout_hash = parts.layout->hash(), .worker = parts.worker},
      .share = parts.config->cluster.checkpoint_share,
      .warn = [this](const std::string& text) { Warn(text); }});
  PrepareMemory(parts.layout->coefficient_count(), {});
}

absl::Status CheckpointKeeper::Post(SegmentPush push, JournalRecord record) {
  if (writer_ == nullptr) return owner_.exchange->Post(std::move(push));
  writer_->Post(std::move(push), std::move(record));
  return absl::OkStatus();
}

void CheckpointKeeper::Note(JournalRecord record) {
  if (writer_ != nullptr) writer_->Note(std::move(record));
}

absl::StatusOr<std::optional<CheckpointKeeper::Ended>> CheckpointKeeper::Attend() {
  if (writer_ == nullptr) return std::nullopt;
  LONGWAVE_RETURN_IF_ERROR(writer_->Attend(MonotonicNow()));
  if (ended_.has_value()) return std::exchange(ended_, std::nullopt);
  if (preparing_.valid() &&
      preparing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    Memory memory = preparing_.get();
    if (!memory.copies.empty()) copies_ = std::move(memory.copies);
    if (memory.momentum.empty()) memory.momentum = std::exchange(memory_.momentum, {});
    return Ended{.is_again = true, .momentum = std::move(memory.momentum)};
  }
  std::optional<CheckpointWriter::Ended> ended = writer_->TakeEnded();
  if (!ended.has_value()) return std::nullopt;
  ++(ended->status.ok() ? written_ : failed_);
  Say(ended->status, ended->checkpoint.round, "; the one before stays, with the journal");
  return Ended{.ok = ended->status.ok(), .momentum = std::move(ended->checkpoint.momentum)};
}

absl::Status CheckpointKeeper::KeepInBackground(Checkpoint checkpoint, const WorkerState& state,
                                                TrainingLoop& loop) {
  const absl::Status completed = Complete(state, loop, &checkpoint);
  if (!completed.ok()) {
    ++failed_;
    Say(completed, checkpoint.round, "; the one before stays, with the journal");
    ended_ = Ended{.ok = false, .momentum = std::move(checkpoint.momentum)};
    return absl::OkStatus();
  }
  if (!HasRoomFor(checkpoint.blobs)) {
    PrepareMemory(/*momentum=*/0, checkpoint.blobs);
    memory_.momentum = std::move(checkpoint.momentum);
    return absl::OkStatus();
  }
  CopyBlobs(checkpoint.blobs);
  checkpoint.write = owner_.folder->NextWrite();
  writer_->Write(std::move(checkpoint));
  return absl::OkStatus();
}

bool CheckpointKeeper::HasRoomFor(std::span<const NamedBlob> blobs) const {
  if (copies_.size() < blobs.size()) return false;
  for (size_t i = 0; i < blobs.size(); ++i) {
    if (copies_[i].bytes < blobs[i].bytes.size()) return false;
  }
  return true;
}

void CheckpointKeeper::PrepareMemory(uint64_t momentum, std::span<const NamedBlob> blobs) {
  std::vector<size_t> sizes;
  for (const NamedBlob& blob : blobs) sizes.push_back(blob.bytes.size());
  preparing_ = std::async(std::launch::async, [momentum, sizes = std::move(sizes)] {
    Memory memory{.momentum = std::vector<float>(momentum), .copies = {}};
    for (const size_t bytes : sizes)
      memory.copies.push_back({std::make_shared<std::byte[]>(bytes), bytes});
    return memory;
  });
}

void CheckpointKeeper::CopyBlobs(std::vector<NamedBlob>& blobs) {
  for (size_t i = 0; i < blobs.size(); ++i) {
    const std::span<const std::byte> from = blobs[i].bytes.bytes();
    const Copy& copy = copies_[i];
    if (!from.empty()) std::memcpy(copy.memory.get(), from.data(), from.size());
    blobs[i].bytes = Buffer(std::span(copy.memory.get(), from.size()), copy.memory);
  }
}

void CheckpointKeeper::Say(const absl::Status& written, uint32_t round, const char* consequence) {
  if (written.ok()) {
    if (std::exchange(failing_, false)) Log(LogLevel::kInfo, "checkpoints are written again");
  } else if (!std::exchange(failing_, true)) {
    Warn(absl::StrCat("no checkpoint of round ", round, ": ", written.message(), consequence));
  }
}

absl::Status CheckpointKeeper::Keep(KeepCheckpoint keep, const WorkerState& state,
                                    TrainingLoop& loop) {
  if (writer_ != nullptr) {
    if (!keep.is_last) return KeepInBackground(std::move(keep.checkpoint), state, loop);
    writer_.reset();  // the folder is this thread's again
    keep.checkpoint.write = owner_.folder->NextWrite();
  }
  const absl::Status written = Write(Complete(state, loop, &keep.checkpoint), keep.checkpoint);
  // A node that lacks a rank posts nothing more, so the checkpoint before is as good as it was.
  if (owner_.node != nullptr) LONGWAVE_RETURN_IF_ERROR(owner_.node->failure());
  ++(written.ok() ? written_ : failed_);
  if (!written.ok() && !keep.is_last) LONGWAVE_RETURN_IF_ERROR(Retire());
  Say(written, keep.checkpoint.round,
      keep.is_last ? "; the one before stays as it is"
                   : "; a crash from here on would cost this worker its residual");
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
  return owner_.folder->Write(checkpoint);
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
  if (owner_.folder != nullptr) status = owner_.folder->Write(checkpoint);
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
  absl::StatusOr<std::optional<FoundCheckpoint>> found = Recover(
      *place_.files, place_.path, owner_.run, owner_.name, owner_.worker, *owner_.layout,
      owner_.node == nullptr ? NodeRank{} : owner_.node->rank(), owner_.pipeline->options());
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
