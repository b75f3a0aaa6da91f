#include "common/metrics/metric_rows.h"

namespace longwave {

Rows EveryRows() {
  return {
      GaugeRow("longwave_build_info",
               {{"version", {}},
                {"part", {"coordinator", "shard", "worker"}},
                {"backend", {"cpu", "cuda"}}},
               "1; what this process is. `backend` is where it computes."),
      CounterRow("longwave_scrapes_total", "Pages of metrics that this process has given."),
      CounterRow("longwave_scrape_seconds_total",
                 "Time that making them took, on any of the process's threads."),
      GaugeRow("longwave_certificate_expiry_timestamp_seconds",
               "When this process's certificate runs out, in Unix time.",
               "with `security.mode` on"),
      GaugeRow("process_start_time_seconds", "When this process was started, in Unix time."),
      CounterRow("process_cpu_seconds_total",
                 "Time that this process's threads have computed, user and system."),
      GaugeRow("process_resident_memory_bytes", "Memory of this process that is in RAM."),
      GaugeRow("process_virtual_memory_bytes", "Address space of this process."),
      GaugeRow("process_open_fds", "File descriptors that this process has open."),
      GaugeRow("process_max_fds", "File descriptors that it may have open."),
  };
}

}  // namespace longwave
