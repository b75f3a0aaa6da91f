#ifndef LONGWAVE_CLI_CLUSTER_H_
#define LONGWAVE_CLI_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/process.h"
#include "cli/run_folder.h"
#include "cli/security/cluster_credentials.h"
#include "common/config/run_config.h"

namespace longwave {

// The place and address of a process that differ from this machine's defaults.
struct Placement {
  std::vector<std::string> prefix;     // precedes the command line: "nsenter", …
  std::vector<std::string> arguments;  // after its usual ones
  std::string data_endpoint;           // a shard's; empty: any free port of cluster.shard_host
};

struct ClusterOptions {
  std::string binaries;                // folder of longwave-server
  std::string worker_binaries;         // of longwave-worker; unused beside worker_command
  std::string listen = "127.0.0.1:0";  // of the coordinator
  // The users' worker command (ParseWorkerCommand); empty: longwave-worker.
  std::vector<std::string> worker_command;
  uint32_t threads = 1;  // of each worker
  // Each process keeps its state in the run's folder, and restarts after a signal has killed it.
  bool keep_state = false;
  bool continues = false;          // the coordinator goes on with a run that has failed
  ClusterCredentials credentials;  // already made; or none: the run is not secured
  // By a process's name ("shard-0"); empty: no process has a placement.
  std::function<Placement(const std::string& process)> place;
};

// Threads of each worker: train.threads, or else those of DefaultThreads among all workers.
uint32_t WorkerThreads(const RunConfig& config);

// The limit of a process's restarts, kMax within kWindow, so that a process that cannot run ends
// the run.
class RestartBudget {
 public:
  static constexpr size_t kMax = 5;
  static constexpr absl::Duration kWindow = absl::Seconds(60);

  // Counts a restart; false if the limit is reached.
  bool Spend(absl::Time now) {
    while (!spent_.empty() && spent_.front() + kWindow <= now) spent_.pop_front();
    if (spent_.size() >= kMax) return false;
    spent_.push_back(now);
    return true;
  }

 private:
  std::deque<absl::Time> spent_;
};

// A whole cluster on this machine: one coordinator, the shards and the workers, each a child
// process. The destructor ends all of them. Not thread-safe.
class Cluster {
 public:
  // interrupt_fd: becomes readable on the user's interrupt. The cluster never reads it; before an
  // end begins, the caller empties it, so that a second interrupt shortens the end. `config` and
  // `folder` outlive the cluster; the folder has the configuration that the children read.
  Cluster(ClusterOptions options, const RunConfig* config, const RunFolder* folder,
          int interrupt_fd);
  ~Cluster() = default;
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Starts coordinator, shards and workers, in this order; waits for the first two to be ready.
  // Errors: Cancelled (an interrupt); others with a sentence.
  absl::Status Start();

  // "host:port"; valid after Start.
  const std::string& coordinator_address() const { return coordinator_address_; }

  // Waits for up to `timeout`. Returns OK (nothing happened, children succeeded, or a killed one
  // was restarted), Cancelled (an interrupt) or Aborted (a child failed: "worker-1: <its
  // sentence>").
  absl::Status Supervise(absl::Duration timeout);

  // A sentence for each restart since the last call.
  std::vector<std::string> TakeNotices();
  // Restarts of all processes.
  uint32_t restarts() const { return restarts_; }

  // Whether all children that train or aggregate have ended.
  bool WorkersEnded();
  // A process that has ended with status 0 too early, a server rather than a worker; null if none.
  // Supervise reports other ends.
  const Process* FirstEnded();
  // The workers that run no more.
  std::vector<const Process*> EndedWorkers();
  bool IsWorker(const Process& process) const;

  // Ends all processes so that the run can resume from its folder. The coordinator ends first, so
  // that it records no departures; then the workers, which write checkpoints; then the shards. An
  // interrupt or the deadline (of MonotonicNow) kills the rest.
  void Park(absl::Time deadline);

  // Waits until the workers have ended by themselves, for instance after writing the weights of a
  // stopped run, or until the deadline or an interrupt.
  void AwaitWorkers(absl::Time deadline) { AwaitEnd(FirstWorker(), children_.size(), deadline); }

  // Ends all processes by `deadline` (of MonotonicNow): SIGTERM to workers and shards, then to the
  // coordinator, then SIGKILL to the rest. last_look (may be empty) is called in between and takes
  // at most last_look_time.
  void Stop(absl::Time deadline, absl::Duration last_look_time,
            const std::function<void()>& last_look);

 private:
  // A process of the cluster: its options, and its current instance.
  struct Child {
    ProcessOptions options;
    std::unique_ptr<Process> process;
    RestartBudget budget;
    std::string metrics = {};  // host:port, once reported
  };

  // Starts one of our programs, which takes arguments.
  absl::Status Launch(const std::string& name, std::vector<std::string> argv, uint32_t threads,
                      Child** child);
  // Starts the user's command, which takes environment variables.
  absl::Status LaunchCommand(const std::string& name);
  absl::Status Spawn(ProcessOptions options, uint32_t threads, Child** child);
  // host:0 for a process's metrics; empty: none.
  std::string MetricsAddress() const;
  Placement PlaceOf(const std::string& process) const;
  // Waits for "ready <value>" on a server's standard output. A restart reuses the value as its
  // address, so that the other processes' address stays valid.
  absl::Status AwaitReady(Child* child, absl::Time deadline, std::string* value);
  // Handles a child's line other than "ready": "metrics <address>". A user's command writes to its
  // log instead, which OnMetricsAddress searches.
  void OnLine(Child* child, const std::string& line);
  void ReadLog(Child* child);
  // Passes the child's lines to OnLine; once it has ended, all that are left.
  void ReadLines(Child* child);
  // Keeps the address for a restart, so that Prometheus's target stays valid.
  void OnMetricsAddress(Child* child, std::string address);
  // Writes the targets for Prometheus, of all processes that have reported an address.
  void WriteTargets() const;
  // Whether a signal has killed the child, so that the next Revive restarts it.
  bool IsToBeRevived(Child& child) const;
  // Restarts killed children. Errors: Aborted (too many restarts).
  absl::Status Revive();
  // The first child that ended with a failure, as Aborted.
  absl::Status FirstFailure();
  // Blocks until output, an end or an interrupt, at most for `timeout`.
  void Poll(absl::Duration timeout);
  bool Interrupted() const;
  // The processes of the children from `begin` to `end`.
  std::vector<Process*> Processes(size_t begin, size_t end) const;
  size_t FirstWorker() const { return 1 + config_->run.shards; }
  // Waits for the end of the children from `begin` to `end`; an interrupt ends the waiting too.
  void AwaitEnd(size_t begin, size_t end, absl::Time deadline);
  // Ends them: SIGTERM, and SIGKILL at the deadline or an interrupt.
  void End(size_t begin, size_t end, absl::Time deadline);
  void Forget();  // of all children, once they are ended

  const ClusterOptions options_;
  const RunConfig* const config_;
  const RunFolder* const folder_;
  const int interrupt_fd_;
  std::string coordinator_address_;
  // In start order: the coordinator, the shards, the workers.
  std::deque<Child> children_;
  bool started_ = false;  // all of them
  std::vector<std::string> notices_;
  uint32_t restarts_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_CLUSTER_H_
