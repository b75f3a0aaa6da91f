#include "tests/sim/lying_file_system.h"

#include <utility>

#include "absl/strings/match.h"

namespace longwave::sim {
namespace {

// The dropped one among the log's writes; the first writes are of files' headers.
constexpr uint64_t kDroppedWrite = 25;

bool IsLog(const std::string& path) { return absl::EndsWith(path, ".lwlog"); }

}  // namespace

class LyingFileSystem::Writable final : public WritableFile {
 public:
  Writable(LyingFileSystem* files, std::unique_ptr<WritableFile> file)
      : files_(files), file_(std::move(file)) {}

  absl::Status Append(BytePieces pieces) override {
    if (files_->canary_ == Canary::kDroppedRecord && ++files_->log_writes_ == kDroppedWrite)
      return absl::OkStatus();
    return file_->Append(pieces);
  }
  absl::Status Sync() override {
    // The first sync is real, so that the file has its header.
    const bool lies = files_->canary_ == Canary::kUnsyncedLog && synced_;
    synced_ = true;
    return lies ? absl::OkStatus() : file_->Sync();
  }

 private:
  LyingFileSystem* const files_;
  const std::unique_ptr<WritableFile> file_;
  bool synced_ = false;
};

std::unique_ptr<WritableFile> LyingFileSystem::Wrap(const std::string& path,
                                                    std::unique_ptr<WritableFile> file) {
  if (!IsLog(path)) return file;
  return std::make_unique<Writable>(this, std::move(file));
}

absl::Status LyingFileSystem::Remove(const std::string& path) {
  if (canary_ == Canary::kHoardedLog && IsLog(path)) return absl::OkStatus();
  return WrappedFileSystem::Remove(path);
}

}  // namespace longwave::sim
