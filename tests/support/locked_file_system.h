#ifndef LONGWAVE_TESTS_SUPPORT_LOCKED_FILE_SYSTEM_H_
#define LONGWAVE_TESTS_SUPPORT_LOCKED_FILE_SYSTEM_H_

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/wrapped_file_system.h"

namespace longwave {

// Another file system for several threads, which take turns.
class LockedFileSystem final : public WrappedFileSystem {
 public:
  using WrappedFileSystem::WrappedFileSystem;

  // Runs `act` while nobody uses the file system.
  template <typename Act>
  auto Alone(const Act& act) {
    const std::lock_guard lock(mutex_);
    return act();
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return Alone([&] { return WrappedFileSystem::Create(path); });
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) override {
    return Alone([&] { return WrappedFileSystem::OpenToAppend(path); });
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override {
    return Alone([&] { return WrappedFileSystem::OpenToRead(path); });
  }
  absl::Status Settle(const std::string& path, std::span<const std::byte> verified) override {
    return Alone([&] { return WrappedFileSystem::Settle(path, verified); });
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Alone([&] { return WrappedFileSystem::Rename(from, to); });
  }
  absl::Status Remove(const std::string& path) override {
    return Alone([&] { return WrappedFileSystem::Remove(path); });
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    return Alone([&] { return WrappedFileSystem::List(folder); });
  }
  absl::Status CreateFolder(const std::string& folder) override {
    return Alone([&] { return WrappedFileSystem::CreateFolder(folder); });
  }
  absl::Status SyncFolder(const std::string& folder) override {
    return Alone([&] { return WrappedFileSystem::SyncFolder(folder); });
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return Alone([&] { return WrappedFileSystem::Lock(path); });
  }

 private:
  class File final : public WritableFile {
   public:
    File(LockedFileSystem* files, std::unique_ptr<WritableFile> file)
        : files_(*files), file_(std::move(file)) {}
    absl::Status Append(BytePieces pieces) override {
      return files_.Alone([&] { return file_->Append(pieces); });
    }
    absl::Status Sync() override {
      return files_.Alone([&] { return file_->Sync(); });
    }

   private:
    LockedFileSystem& files_;
    const std::unique_ptr<WritableFile> file_;
  };
  std::unique_ptr<WritableFile> Wrap(const std::string&,
                                     std::unique_ptr<WritableFile> file) override {
    return std::make_unique<File>(this, std::move(file));
  }

  std::mutex mutex_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_LOCKED_FILE_SYSTEM_H_
