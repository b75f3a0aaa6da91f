#ifndef LONGWAVE_SERVER_SERVICE_MEASURED_FILES_H_
#define LONGWAVE_SERVER_SERVICE_MEASURED_FILES_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "server/store/file_system.h"

namespace longwave {

// A shard's metrics of disk writes.
class DiskFigures {
 public:
  explicit DiskFigures(Metrics& metrics);  // outlives this object

  void Wrote(uint64_t bytes, bool ok);
  void Synced(absl::Duration took, bool ok);
  // Time since the last successful sync, or since construction. Thread-safe.
  absl::Duration SinceSync() const;

 private:
  Counter& bytes_;
  Counter& failures_;
  Histogram& sync_seconds_;
  std::atomic<int64_t> synced_at_ns_;  // of MonotonicNow
};

// Wraps `files` so that `figures` measures writes. `figures` outlives the files.
std::unique_ptr<FileSystem> MeasureFiles(std::unique_ptr<FileSystem> files, DiskFigures* figures);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_MEASURED_FILES_H_
