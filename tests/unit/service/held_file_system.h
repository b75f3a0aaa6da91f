#ifndef LONGWAVE_TESTS_UNIT_SERVICE_HELD_FILE_SYSTEM_H_
#define LONGWAVE_TESTS_UNIT_SERVICE_HELD_FILE_SYSTEM_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "tests/support/wrapped_file_system.h"

namespace longwave {

// A disk that the test can hold up and let fail.
class HeldFileSystem final : public WrappedFileSystem {
 public:
  using WrappedFileSystem::WrappedFileSystem;

  void Hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void Fail(bool fails) {
    const std::lock_guard lock(mutex_);
    fails_ = fails;
  }
  // Until something waits for the disk.
  void AwaitHeld() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waits_; });
  }

 private:
  class Writable final : public WritableFile {
   public:
    Writable(HeldFileSystem* files, std::unique_ptr<WritableFile> file)
        : files_(files), file_(std::move(file)) {}
    absl::Status Append(BytePieces pieces) override {
      LONGWAVE_RETURN_IF_ERROR(files_->Await());
      return file_->Append(pieces);
    }
    absl::Status Sync() override { return file_->Sync(); }

   private:
    HeldFileSystem* const files_;
    const std::unique_ptr<WritableFile> file_;
  };
  std::unique_ptr<WritableFile> Wrap(const std::string&,
                                     std::unique_ptr<WritableFile> file) override {
    return std::make_unique<Writable>(this, std::move(file));
  }
  absl::Status Await() {
    std::unique_lock lock(mutex_);
    waits_ = held_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    return fails_ ? absl::ResourceExhaustedError("the disk is full") : absl::OkStatus();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool fails_ = false;
  bool waits_ = false;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_SERVICE_HELD_FILE_SYSTEM_H_
