#ifndef LONGWAVE_TESTS_BENCH_LINK_RUN_H_
#define LONGWAVE_TESTS_BENCH_LINK_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
#include "tests/bench/link/network.h"

namespace longwave {

// A worker's work in a training run, and its interfaces' traffic.
struct LinkWorker {
  std::string name;
  double seconds_computing = 0;
  double seconds_syncing = 0;  // of which overlapped steps are no part
  ByteCounts sockets;          // our own count
  InterfaceBytes data;         // at its data link, the kernel's count
  InterfaceBytes control;
  uint64_t segments_sent_again = 0;  // by TCP: lost, or not acknowledged as soon as it hoped
};

// A training run over the links in their present state.
struct LinkRun {
  std::string preset;
  double mbit = 0;  // 0: not shaped
  RunStatus status;
  std::vector<LinkWorker> workers;

  // From the first step to the end of the last round, its validation included.
  double seconds() const { return status.records.empty() ? 0 : status.records.back().seconds; }
  // Seconds without the validation, for a run that validates only at its end. Computed from the
  // workers' clocks as the slowest worker's computing, syncing and waiting. The hashing of its
  // state (milliseconds a round) is left out, too.
  double SecondsUnvalidated() const;
  double rounds() const { return static_cast<double>(status.records.size()); }
};

struct LinkRunOptions {
  const LinkNetwork* network = nullptr;
  RunConfig config;
  std::string name;  // of the run's folder
  std::string binaries;
  std::string runs_dir;
  double mbit = 0;
  // Every process keeps its state in the run's folder: workers write checkpoints before they push,
  // shards a log of accepted pushes.
  bool keep_state = false;
  int interrupt_fd = -1;
  std::function<bool(const RunStatus&)> stop_when;  // may be empty: runs to its end
};

// Trains, with the calling thread in the coordinator's namespace. The coordinator runs there, every
// shard and every worker in its own. Cancelled: an interrupt. Aborted: the reason.
absl::StatusOr<LinkRun> RunOverLinks(const LinkRunOptions& options);

// The names of a run's nodes in the network.
std::vector<std::string> LinkNodes(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_LINK_RUN_H_
