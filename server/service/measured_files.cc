#include "server/service/measured_files.h"

#include <string>
#include <utility>

#include "common/base/clock.h"
#include "server/store/wrapped_file_system.h"

namespace longwave {
namespace {

class MeasuredFile final : public WritableFile {
 public:
  MeasuredFile(std::unique_ptr<WritableFile> file, DiskFigures* figures)
      : file_(std::move(file)), figures_(figures) {}

  absl::Status Append(BytePieces pieces) override {
    uint64_t bytes = 0;
    for (const auto& piece : pieces) bytes += piece.size();
    absl::Status status = file_->Append(pieces);
    figures_->Wrote(bytes, status.ok());
    return status;
  }

  absl::Status Sync() override {
    const absl::Time begin = MonotonicNow();
    absl::Status status = file_->Sync();
    figures_->Synced(MonotonicNow() - begin, status.ok());
    return status;
  }

 private:
  const std::unique_ptr<WritableFile> file_;
  DiskFigures* const figures_;
};

class MeasuredFiles final : public WrappedFileSystem {
 public:
  MeasuredFiles(std::unique_ptr<FileSystem> files, DiskFigures* figures)
      : WrappedFileSystem(files.get()), files_(std::move(files)), figures_(figures) {}

 private:
  std::unique_ptr<WritableFile> Wrap(const std::string&,
                                     std::unique_ptr<WritableFile> file) override {
    return std::make_unique<MeasuredFile>(std::move(file), figures_);
  }

  const std::unique_ptr<FileSystem> files_;
  DiskFigures* const figures_;
};

}  // namespace

DiskFigures::DiskFigures(Metrics& metrics)
    : bytes_(metrics.counter("longwave_shard_disk_written_bytes_total")),
      failures_(metrics.counter("longwave_shard_disk_failures_total")),
      sync_seconds_(metrics.histogram("longwave_shard_sync_seconds")),
      synced_at_ns_(absl::ToUnixNanos(MonotonicNow())) {}

void DiskFigures::Wrote(uint64_t bytes, bool ok) {
  if (ok) return bytes_.Add(static_cast<double>(bytes));
  failures_.Add();
}

void DiskFigures::Synced(absl::Duration took, bool ok) {
  if (!ok) return failures_.Add();
  sync_seconds_.Observe(absl::ToDoubleSeconds(took));
  synced_at_ns_.store(absl::ToUnixNanos(MonotonicNow()), std::memory_order_relaxed);
}

absl::Duration DiskFigures::SinceSync() const {
  return MonotonicNow() - absl::FromUnixNanos(synced_at_ns_.load(std::memory_order_relaxed));
}

std::unique_ptr<FileSystem> MeasureFiles(std::unique_ptr<FileSystem> files, DiskFigures* figures) {
  return std::make_unique<MeasuredFiles>(std::move(files), figures);
}

}  // namespace longwave
