#include "server/service/disk_figures.h"

#include "common/base/clock.h"

namespace longwave {

DiskFigures::DiskFigures(Metrics& metrics)
    : bytes_(metrics.counter("longwave_shard_disk_written_bytes_total")),
      failures_(metrics.counter("longwave_shard_disk_failures_total")),
      sync_seconds_(metrics.histogram("longwave_shard_sync_seconds")),
      synced_at_ns_(absl::ToUnixNanos(MonotonicNow())) {}

DiskWatch DiskFigures::watch() {
  return {.wrote =
              [this](uint64_t bytes, bool ok) {
                if (ok) return bytes_.Add(static_cast<double>(bytes));
                failures_.Add();
              },
          .synced =
              [this](absl::Duration took, bool ok) {
                if (!ok) return failures_.Add();
                sync_seconds_.Observe(absl::ToDoubleSeconds(took));
                synced_at_ns_.store(absl::ToUnixNanos(MonotonicNow()), std::memory_order_relaxed);
              }};
}

absl::Duration DiskFigures::SinceSync() const {
  return MonotonicNow() - absl::FromUnixNanos(synced_at_ns_.load(std::memory_order_relaxed));
}

}  // namespace longwave
