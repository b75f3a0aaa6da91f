#ifndef LONGWAVE_SERVER_SERVICE_DISK_FIGURES_H_
#define LONGWAVE_SERVER_SERVICE_DISK_FIGURES_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "server/store/posix_file_system.h"

namespace longwave {

// A shard's metrics of disk writes.
class DiskFigures {
 public:
  explicit DiskFigures(Metrics& metrics);  // outlives this object

  // For the file system to measure, which this object outlives.
  DiskWatch watch();
  // Time since the last successful sync, or since construction. Thread-safe.
  absl::Duration SinceSync() const;

 private:
  Counter& bytes_;
  Counter& failures_;
  Histogram& sync_seconds_;
  std::atomic<int64_t> synced_at_ns_;  // of MonotonicNow
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_DISK_FIGURES_H_
