#ifndef LONGWAVE_CLI_CLUSTER_H_
#define LONGWAVE_CLI_CLUSTER_H_

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
#include "cli/worker_command.h"
#include "common/config/run_config.h"

namespace longwave {

// Where a process runs and how it is reached, where that is not simply on this machine.
struct Placement {
  std::vector<std::string> prefix;     // of its command line: "nsenter", …
  std::vector<std::string> arguments;  // after its usual ones
  std::string data_endpoint;           // a shard's; empty: any free port of cluster.shard_host
};

struct ClusterOptions {
  std::string binaries;                // folder of longwave-server and longwave-worker
  std::string listen = "127.0.0.1:0";  // of the coordinator
  // The command that workers are (ParseWorkerCommand); empty: longwave-worker.
  std::vector<std::string> worker_command;
  uint32_t threads = 1;                              // of each worker
  absl::Duration ready_timeout = absl::Seconds(60);  // until a server says that it is ready
  // Each process keeps its state in the run's folder, and is started again when a signal kills it.
  bool keep_state = false;
  ClusterCredentials credentials;  // made already; or none, and nothing is secured
  // By a process's name ("shard-0"); empty: all here.
  std::function<Placement(const std::string& process)> place;
};

// Threads of each worker: train.threads, or its share of the machine's cores.
uint32_t WorkerThreads(const RunConfig& config, uint32_t cores);

// How often a process may be started again: kMax times within kWindow, so that one that cannot live
// ends the run instead of trying for ever.
class RestartBudget {
 public:
  static constexpr size_t kMax = 5;
  static constexpr absl::Duration kWindow = absl::Seconds(60);

  // False: it was started again so often already; else one more is counted.
  bool Spend(absl::Time now);

 private:
  std::deque<absl::Time> spent_;
};

// A whole cluster on this machine: one coordinator, the shards, the workers, each a child process.
// Nothing is left running when this object goes. Not thread-safe.
class Cluster {
 public:
  // interrupt_fd: becomes readable when the user wants an end; never read here. `config` and
  // `folder` outlive the cluster; the folder has the configuration that the children read.
  Cluster(ClusterOptions options, const RunConfig* config, const RunFolder* folder,
          int interrupt_fd);
  ~Cluster() = default;
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Starts coordinator, shards and workers, in this order; waits for the first two to be ready.
  // Cancelled: an interrupt. Others: what went wrong, in one sentence.
  absl::Status Start();

  // "host:port", once started.
  const std::string& coordinator_address() const { return coordinator_address_; }

  // Waits for up to `timeout` and says what came: OK (nothing, children that ended well, or one
  // that a signal killed and that was started again), Cancelled (an interrupt), Aborted (a child
  // failed: "worker-1: <its sentence>").
  absl::Status Supervise(absl::Duration timeout);

  // A sentence for each process that was started again since the last call.
  std::vector<std::string> TakeNotices();
  // How often processes were started again, of all of them together.
  uint32_t restarts() const { return restarts_; }

  // Children that trained or aggregated have all ended.
  bool WorkersEnded();
  // A process that has ended with status 0 and should still be there in a run that goes on: a
  // server rather than a worker. Null: there is none. How another one ended Supervise says.
  const Process* FirstEnded();
  // Workers of which that is true.
  std::vector<const Process*> EndedWorkers();
  bool IsWorker(const Process& process) const;

  // Ends everything by `deadline` (of MonotonicNow): SIGTERM to workers and shards, then to the
  // coordinator, SIGKILL to what is left. last_look (may be empty) is called in between and takes
  // at most last_look_time.
  void Stop(absl::Time deadline, absl::Duration last_look_time,
            const std::function<void()>& last_look);

 private:
  // One of the cluster's processes: how it is started, and the process that runs now.
  struct Child {
    ProcessOptions options;
    std::unique_ptr<Process> process;
    RestartBudget budget;
    std::string metrics = {};  // host:port, once it has said it
    bool is_command = false;   // of the user's
  };

  // One of our programs, told by arguments.
  absl::Status Launch(const std::string& name, std::vector<std::string> argv, uint32_t threads,
                      Child** child);
  // The user's, told by its environment.
  absl::Status LaunchCommand(const std::string& name);
  absl::Status Spawn(ProcessOptions options, uint32_t threads, Child** child);
  // host:0, where a process is to serve metrics; empty: nowhere.
  std::string MetricsAddress() const;
  Placement PlaceOf(const std::string& process) const;
  // Waits for "ready <value>" on a server's standard output. When it is started again it listens
  // there, so that nobody has to look for it.
  absl::Status AwaitReady(Child* child, absl::Time deadline, std::string* value);
  // A line of a child that is not "ready": "metrics <address>". What a command of the user's prints
  // goes to its log, where it says that among other things.
  void TakeLine(Child* child, const std::string& line);
  void ReadLog(Child* child);
  // When it is started again it serves there, so that Prometheus finds it where it was.
  void TakeMetrics(Child* child, std::string address);
  // For Prometheus, whoever has said where it serves.
  void WriteTargets() const;
  // A signal has killed it, and the next Revive starts it again.
  bool IsToBeRevived(Child& child) const;
  // Starts again what a signal has killed. Aborted: too often.
  absl::Status Revive();
  // The first child that ended with a failure, as Aborted.
  absl::Status FirstFailure();
  // Blocks until output, an end or an interrupt comes, at most for `timeout`.
  void Poll(absl::Duration timeout);
  bool Interrupted() const;
  void AwaitEnd(const std::vector<Process*>& processes, absl::Time deadline);

  const ClusterOptions options_;
  const RunConfig* const config_;
  const RunFolder* const folder_;
  const int interrupt_fd_;
  std::string coordinator_address_;
  // In the order of starting: the coordinator, the shards, the workers.
  std::deque<Child> children_;
  bool started_ = false;  // all of them
  std::vector<std::string> notices_;
  uint32_t restarts_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_CLUSTER_H_
