#ifndef LONGWAVE_TESTS_SUPPORT_WRAPPED_FILE_SYSTEM_H_
#define LONGWAVE_TESTS_SUPPORT_WRAPPED_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "server/store/file_system.h"

namespace longwave {

// Forwards to another file system, with writable files passed through Wrap by a derived class.
class WrappedFileSystem : public FileSystem {
 public:
  // files: outlives this object.
  explicit WrappedFileSystem(FileSystem* files) : files_(files) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    LONGWAVE_ASSIGN_OR_RETURN(auto file, files_->Create(path));
    return Wrap(path, std::move(file));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) override {
    LONGWAVE_ASSIGN_OR_RETURN(auto file, files_->OpenToAppend(path));
    return Wrap(path, std::move(file));
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override {
    return files_->OpenToRead(path);
  }
  absl::Status Settle(const std::string& path, std::span<const std::byte> verified) override {
    return files_->Settle(path, verified);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return files_->Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return files_->Remove(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    return files_->List(folder);
  }
  absl::Status CreateFolder(const std::string& folder) override {
    return files_->CreateFolder(folder);
  }
  absl::Status SyncFolder(const std::string& folder) override { return files_->SyncFolder(folder); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return files_->Lock(path);
  }

 private:
  virtual std::unique_ptr<WritableFile> Wrap(const std::string& path,
                                             std::unique_ptr<WritableFile> file) = 0;

  FileSystem* const files_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_WRAPPED_FILE_SYSTEM_H_
