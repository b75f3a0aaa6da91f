#include "common/metrics/metric_rows.h"

namespace longwave {

Rows EveryRows() {
  return {
      GaugeRow("longwave_build_info",
               {{"version", {}},
                {"part", {"coordinator", "shard", "worker"}},
                {"backend", {"cpu", "cuda"}}},
               "1. The labels say what this process is; `backend` is where it computes."),
      GaugeRow("longwave_run_info",
               {{"preset", {}}, {"model", {}}, {"signal", {}}, {"security", {}}},
               "1. The labels say what the run is: `run.preset`, `model.kind`, `sync.signal` and "
               "`security.mode` of this process's configuration. The coordinator's has neither "
               "`shard` nor `worker`, so that there is one a run."),
      GaugeRow("longwave_inner_steps",
               "Inner steps of a round, H (`sync.inner_steps`). With `auto`: the most that a round "
               "may have."),
      GaugeRow("longwave_round_grace_seconds",
               "Time that a round waits at most for the other members, once a quorum has pushed "
               "(`cluster.grace_max_s`)."),
      GaugeRow("longwave_heartbeat_interval_seconds",
               "Time between heartbeats (`cluster.heartbeat_interval_s`)."),
      GaugeRow("longwave_heartbeat_timeout_seconds",
               "Silence after which a member counts as lost (`cluster.heartbeat_timeout_s`)."),
      GaugeRow("longwave_snapshot_rounds",
               "Rounds between two snapshots of the parameters (`cluster.snapshot_rounds`)."),
      CounterRow("longwave_scrapes_total", "Pages of metrics that this process has given."),
      CounterRow("longwave_scrape_seconds_total",
                 "Time that making these pages took, on any of the process's threads."),
      GaugeRow("longwave_certificate_expiry_timestamp_seconds",
               "When this process's certificate runs out, in Unix time.",
               "with `security.mode` on"),
      GaugeRow("longwave_certificate_lifetime_seconds",
               "The whole life of this process's certificate.", "with `security.mode` on"),
      GaugeRow("process_start_time_seconds", "When this process was started, in Unix time."),
      CounterRow("process_cpu_seconds_total",
                 "Time that this process's threads have computed, user and system."),
      GaugeRow("process_resident_memory_bytes", "Memory of this process that is in RAM."),
      GaugeRow("process_virtual_memory_bytes", "Address space of this process."),
      GaugeRow("process_open_fds", "File descriptors that this process has open."),
      GaugeRow("process_max_fds", "File descriptors that this process may have open."),
  };
}

}  // namespace longwave
