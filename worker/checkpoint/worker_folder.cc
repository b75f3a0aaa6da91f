#include "worker/checkpoint/worker_folder.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/base/random_word.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "common/wire/crc32c.h"
#include "worker/checkpoint/checkpoint_parts.h"
#include "worker/checkpoint/push_journal.h"

namespace longwave {
namespace {

constexpr char kLock[] = "lock";
constexpr char kIdentity[] = "identity";
constexpr char kProcesses[] = "processes";
constexpr char kCheckpoint[] = "checkpoint";
constexpr char kStale[] = "checkpoint.stale";
constexpr char kBeside[] = "checkpoint.new.tmp";  // removed by RemoveTemporaries
// A disk takes so much within some tens of milliseconds.
constexpr size_t kChunkBytes = size_t{4} << 20;
constexpr size_t kWordDigits = 16;
constexpr size_t kWordFileBytesMax = 26;

// The digits of a word, their CRC32C, and the end of the line.
std::string WordText(uint64_t word) {
  const std::string digits = absl::StrFormat("%016x", word);
  return absl::StrFormat("%s %08x\n", digits, Crc32c(std::as_bytes(std::span(digits))));
}

// The word in a file, never 0. what: names the file in errors.
absl::StatusOr<uint64_t> ReadWord(FileSystem& files, const std::string& file, const char* what) {
  return ReadUntilSure([&]() -> absl::StatusOr<uint64_t> {
    LONGWAVE_ASSIGN_OR_RETURN(const Buffer bytes, ReadWhole(files, file, kWordFileBytesMax));
    const std::string text(reinterpret_cast<const char*>(bytes.bytes().data()), bytes.size());
    uint64_t word = 0;
    const bool is_word = absl::SimpleHexAtoi(text.substr(0, kWordDigits), &word) && word != 0;
    // Earlier versions wrote no CRC32C.
    if (is_word && (text == WordText(word) || text == absl::StrFormat("%016x\n", word)))
      return word;
    return DataLoss(file, ": wanted ", what,
                    ": 16 hexadecimal digits, their CRC32C and the end of the line");
  });
}

absl::Status WriteWord(FileSystem& files, const std::string& folder, const char* name,
                       uint64_t word) {
  const std::string text = WordText(word);
  const std::array<std::span<const std::byte>, 1> pieces = {std::as_bytes(std::span(text))};
  return Publish(files, folder, name, pieces);
}

absl::StatusOr<uint64_t> MakeIdentity(FileSystem& files, const std::string& folder) {
  uint64_t identity = RandomWord();
  while (identity == 0) identity = RandomWord();
  LONGWAVE_RETURN_IF_ERROR(WriteWord(files, folder, kIdentity, identity));
  return identity;
}

absl::StatusOr<CheckpointHead> ReadHead(FileSystem& files, const std::string& file) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> opened, files.OpenToRead(file));
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t size, opened->Size());
  std::array<std::byte, kCheckpointHeaderBytes> header;
  const std::span<std::byte> there(header.data(), std::min<uint64_t>(size, header.size()));
  LONGWAVE_RETURN_IF_ERROR(opened->ReadAt(0, there));
  const absl::StatusOr<CheckpointHead> head = DecodeCheckpointHead(there);
  return head.ok() ? head : Prefixed(file, head.status());
}

// Rounds that a checkpoint's residual accounts for. 0: no checkpoint, or one that Read will refuse,
// too. FailedPrecondition: another release's.
absl::StatusOr<uint64_t> AccountedRounds(FileSystem& files, const std::string& folder,
                                         const char* name) {
  const absl::StatusOr<CheckpointHead> head =
      ReadUntilSure([&] { return ReadHead(files, JoinPath(folder, name)); });
  if (absl::IsFailedPrecondition(head.status())) return head.status();
  if (!head.ok()) return 0;
  uint32_t rounds = head->accounted_rounds;
  // Without the journal the residual is of no use: the process begins with zeros (Recover).
  const auto records = ReadJournals(files, folder, head->write, nullptr);
  if (absl::IsFailedPrecondition(records.status())) return records.status();
  if (!records.ok()) return 0;
  for (const JournalRecord& record : *records) {
    if (record.kind == JournalKind::kPush) rounds = std::max(rounds, record.round + 1);
  }
  return rounds;
}

// Durable before the coordinator hears of this process, so that a later process has a larger
// number.
absl::StatusOr<uint64_t> CountProcess(FileSystem& files, const std::string& folder) {
  absl::StatusOr<uint64_t> before = ReadWord(files, JoinPath(folder, kProcesses), "a count");
  if (absl::IsNotFound(before.status())) before = 0;
  LONGWAVE_RETURN_IF_ERROR(before.status());
  LONGWAVE_RETURN_IF_ERROR(WriteWord(files, folder, kProcesses, *before + 1));
  return *before + 1;
}

}  // namespace

absl::StatusOr<Checkpoint> ReadCheckpoint(FileSystem& files, const std::string& file,
                                          const CheckpointShape& shape) {
  return ReadUntilSure([&]() -> absl::StatusOr<Checkpoint> {
    LONGWAVE_ASSIGN_OR_RETURN(const CheckpointHead head, ReadHead(files, file));
    LONGWAVE_ASSIGN_OR_RETURN(const Buffer bytes, ReadWhole(files, file, head.file_bytes));
    absl::StatusOr<Checkpoint> checkpoint = DecodeCheckpoint(bytes, shape);
    return checkpoint.ok() ? std::move(checkpoint) : Prefixed(file, checkpoint.status());
  });
}

absl::StatusOr<std::optional<FoundCheckpoint>> ReadLastCheckpoint(
    FileSystem& files, const std::string& folder, uint64_t run, const std::string& name,
    uint32_t worker, const CheckpointShape& shape) {
  absl::Status damage;
  for (const bool stale : {false, true}) {
    const std::string file = JoinPath(folder, stale ? kStale : kCheckpoint);
    absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(files, file, shape);
    if (absl::IsNotFound(checkpoint.status())) continue;  // absent, or of another layout
    if (absl::IsFailedPrecondition(checkpoint.status())) return checkpoint.status();
    if (!checkpoint.ok()) {
      damage.Update(checkpoint.status());
      continue;
    }
    if (checkpoint->run != run || checkpoint->name != name || checkpoint->worker != worker) {
      continue;
    }
    if (!damage.ok()) {
      Log(LogLevel::kWarning, damage.message(), "; the one before it is taken");
    }
    return FoundCheckpoint{.checkpoint = *std::move(checkpoint), .stale = stale};
  }
  if (!damage.ok()) return damage;
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<WorkerFolder>> WorkerFolder::Open(FileSystem* files,
                                                                 std::string path) {
  LONGWAVE_RETURN_IF_ERROR(files->CreateFolder(path));
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock, files->Lock(JoinPath(path, kLock)));
  LONGWAVE_RETURN_IF_ERROR(RemoveTemporaries(*files, path));
  absl::StatusOr<uint64_t> identity = ReadWord(*files, JoinPath(path, kIdentity), "an identity");
  if (absl::IsNotFound(identity.status())) identity = MakeIdentity(*files, path);
  LONGWAVE_RETURN_IF_ERROR(identity.status());
  LONGWAVE_RETURN_IF_ERROR(SettleJournals(*files, path));
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t accounted, AccountedRounds(*files, path, kCheckpoint));
  LONGWAVE_RETURN_IF_ERROR(AccountedRounds(*files, path, kStale).status());
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t process, CountProcess(*files, path));
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> names, files->List(path));
  const bool current = std::ranges::find(names, kCheckpoint) != names.end();
  return std::unique_ptr<WorkerFolder>(new WorkerFolder(
      files, std::move(path), std::move(lock), *identity, accounted << 32 | process, current));
}

absl::Status WorkerFolder::Write(const Checkpoint& checkpoint) {
  LONGWAVE_ASSIGN_OR_RETURN(const EncodedCheckpoint encoded, EncodeCheckpoint(checkpoint));
  current_ = true;  // a failed write may have got there, too
  LONGWAVE_RETURN_IF_ERROR(Publish(*files_, path_, kCheckpoint, encoded.pieces));
  return RemoveOthers(checkpoint.write);
}

absl::Status WorkerFolder::RemoveOthers(uint64_t write) {
  LONGWAVE_RETURN_IF_ERROR(RemoveJournalsBefore(*files_, path_, write));
  return RemovePartsBut(*files_, path_, write);
}

absl::Status WorkerFolder::WriteBeside(const Checkpoint& checkpoint,
                                       absl::FunctionRef<bool(uint64_t bytes)> written) const {
  const absl::Status status = WriteChunks(checkpoint, written);
  // An unfinished file takes room on the disk.
  if (!status.ok()) files_->Remove(JoinPath(path_, kBeside)).IgnoreError();
  return status;
}

absl::Status WorkerFolder::WriteChunks(const Checkpoint& checkpoint,
                                       absl::FunctionRef<bool(uint64_t bytes)> written) const {
  LONGWAVE_ASSIGN_OR_RETURN(const EncodedCheckpoint encoded, EncodeCheckpoint(checkpoint));
  const std::string path = JoinPath(path_, kBeside);
  // An earlier write may have been left unfinished.
  const absl::Status removed = files_->Remove(path);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files_->Create(path));
  std::vector<std::span<const std::byte>> chunk;
  uint64_t bytes = 0;
  const auto write = [&]() -> absl::Status {
    LONGWAVE_RETURN_IF_ERROR(file->Append(std::exchange(chunk, {})));
    LONGWAVE_RETURN_IF_ERROR(file->Sync());
    return written(std::exchange(bytes, 0)) ? absl::OkStatus()
                                            : Cancelled(path, ": the write was given up");
  };
  for (std::span<const std::byte> piece : encoded.pieces) {
    while (!piece.empty()) {
      chunk.push_back(piece.first(std::min(piece.size(), kChunkBytes - bytes)));
      bytes += chunk.back().size();
      piece = piece.subspan(chunk.back().size());
      if (bytes == kChunkBytes) LONGWAVE_RETURN_IF_ERROR(write());
    }
  }
  return bytes == 0 ? absl::OkStatus() : write();
}

absl::Status WorkerFolder::Adopt(uint64_t write) {
  current_ = true;
  LONGWAVE_RETURN_IF_ERROR(files_->Rename(JoinPath(path_, kBeside), JoinPath(path_, kCheckpoint)));
  LONGWAVE_RETURN_IF_ERROR(files_->SyncFolder(path_));
  return RemoveOthers(write);
}

absl::Status WorkerFolder::Retire() {
  if (!current_) return absl::OkStatus();
  const absl::Status renamed =
      files_->Rename(JoinPath(path_, kCheckpoint), JoinPath(path_, kStale));
  if (!renamed.ok() && !absl::IsNotFound(renamed)) return renamed;
  LONGWAVE_RETURN_IF_ERROR(files_->SyncFolder(path_));
  current_ = false;
  return absl::OkStatus();
}

}  // namespace longwave
