#ifndef LONGWAVE_TESTS_SIM_LYING_FILE_SYSTEM_H_
#define LONGWAVE_TESTS_SIM_LYING_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/store/file_system.h"
#include "tests/sim/canary.h"

namespace longwave::sim {

// A file system with one of the canaries that a disk can have; otherwise it is the one behind it.
class LyingFileSystem final : public FileSystem {
 public:
  LyingFileSystem(FileSystem* files, Canary canary) : files_(files), canary_(canary) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override {
    return files_->OpenToRead(path);
  }
  absl::Status Settle(const std::string& path, uint64_t bytes) override {
    return files_->Settle(path, bytes);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return files_->Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    return files_->List(folder);
  }
  absl::Status CreateFolder(const std::string& folder) override {
    return files_->CreateFolder(folder);
  }
  absl::Status SyncFolder(const std::string& folder) override { return files_->SyncFolder(folder); }
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    return files_->FreeBytes(path);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return files_->Lock(path);
  }

 private:
  class Writable;
  absl::StatusOr<std::unique_ptr<WritableFile>> Wrap(
      const std::string& path, absl::StatusOr<std::unique_ptr<WritableFile>> file);

  FileSystem* const files_;
  const Canary canary_;
  uint64_t log_writes_ = 0;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_LYING_FILE_SYSTEM_H_
