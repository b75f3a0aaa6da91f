#include "server/store/file_system.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace longwave {
namespace {

constexpr absl::string_view kTemporarySuffix = ".tmp";

absl::Status WriteAll(FileSystem& files, const std::string& path, BytePieces pieces) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.Create(path));
  LONGWAVE_RETURN_IF_ERROR(file->Append(pieces));
  return file->Sync();
}

}  // namespace

absl::StatusOr<Buffer> ReadWhole(FileSystem& files, const std::string& path, uint64_t bytes_max) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size > bytes_max) {
    return ResourceExhausted(path, ": got ", size, " bytes, wanted at most ", bytes_max);
  }
  std::vector<std::byte> bytes(size);
  LONGWAVE_RETURN_IF_ERROR(file->ReadAt(0, bytes));
  return Buffer(std::move(bytes));
}

void LogWrongRead(absl::string_view fault) {
  Log(LogLevel::kWarning, "a second read differs from the first, which had found: ", fault,
      "; are the disk and the memory in order?");
}

absl::Status Publish(FileSystem& files, const std::string& folder, absl::string_view name,
                     BytePieces pieces) {
  const std::string path = JoinPath(folder, name);
  const std::string temporary = absl::StrCat(path, kTemporarySuffix);
  absl::Status status = WriteAll(files, temporary, pieces);
  if (absl::IsAlreadyExists(status)) {  // left by a Publish that could not remove it
    LONGWAVE_RETURN_IF_ERROR(files.Remove(temporary));
    status = WriteAll(files, temporary, pieces);
  }
  if (status.ok()) status = files.Rename(temporary, path);
  if (!status.ok()) {
    // The first error is returned. The file does no harm, and the next start removes it.
    files.Remove(temporary).IgnoreError();
    return status;
  }
  return files.SyncFolder(folder);
}

absl::Status RemoveTemporaries(FileSystem& files, const std::string& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  for (const std::string& name : names) {
    if (absl::EndsWith(name, kTemporarySuffix)) {
      LONGWAVE_RETURN_IF_ERROR(files.Remove(JoinPath(folder, name)));
    }
  }
  return absl::OkStatus();
}

absl::Status RefuseOlderState(FileSystem& files, const std::string& folder,
                              absl::string_view name) {
  const std::string path = JoinPath(folder, name);
  const absl::Status there = files.OpenToRead(path).status();
  if (absl::IsNotFound(there)) return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(there);
  return FailedPrecondition(
      path,
      ": got a database of an older version of Longwave, which kept its state in SQLite; "
      "wanted a folder of this version: finish the run with the older version, or set the "
      "folder aside to begin anew");
}

std::string JoinPath(absl::string_view folder, absl::string_view name) {
  if (folder.empty()) return std::string(name);
  return absl::StrCat(folder, folder.back() == '/' ? "" : "/", name);
}

}  // namespace longwave
