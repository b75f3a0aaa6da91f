#ifndef LONGWAVE_SERVER_SERVICE_MEASURED_FILES_H_
#define LONGWAVE_SERVER_SERVICE_MEASURED_FILES_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "server/store/file_system.h"

namespace longwave {

// What is written to a disk, by the series of a shard.
class DiskFigures {
 public:
  explicit DiskFigures(Metrics& metrics);  // which outlives this

  void Wrote(uint64_t bytes, bool ok);
  void Synced(absl::Duration took, bool ok);
  // From any thread. Since the last Synced that went well, or construction.
  absl::Duration SinceSync() const;

 private:
  Counter& bytes_;
  Counter& failures_;
  Histogram& sync_seconds_;
  std::atomic<int64_t> synced_at_ns_;  // of MonotonicNow
};

// `files`, with `figures` of what is written through them. `figures` outlives all that comes of it.
std::unique_ptr<FileSystem> MeasureFiles(std::unique_ptr<FileSystem> files, DiskFigures* figures);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_MEASURED_FILES_H_
