#ifndef LONGWAVE_TESTS_BENCH_SHARD_CLUSTER_H_
#define LONGWAVE_TESTS_BENCH_SHARD_CLUSTER_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/process.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/rpc/coordinator_client.h"
#include "tests/support/shard_client.h"

namespace longwave {

// The shards' counters of sockets and merges.
struct ShardCounts {
  uint64_t pushes_accepted = 0;
  uint64_t segments_closed = 0;
  uint64_t bytes_received = 0;  // on the wire: payloads, headers and their framing
  uint64_t bytes_sent = 0;
  uint64_t payload_received = 0;  // of pushes
  uint64_t payload_sent = 0;      // of merged updates

  bool operator==(const ShardCounts&) const = default;
  ShardCounts Since(const ShardCounts& before) const;
};

struct BenchClusterOptions {
  std::string server;                 // longwave-server
  std::string folder;                 // gets the configuration and the logs
  RunConfig config;                   // of workers, shards and all else
  Manifest manifest;                  // of the workers' model
  std::vector<int> shard_processors;  // shard i runs on the (i mod their number)th; empty: anywhere
  bool keep_state = false;            // each shard has a folder under `folder`
};

// A coordinator and its shards, each a real process, and the control plane of synthetic workers,
// which register and send heartbeats. Their data plane is a Load.
class BenchCluster {
 public:
  // Returns once every worker has been told that the run has begun. Not to be moved to a thread
  // that ends before it (see Process).
  static absl::StatusOr<std::unique_ptr<BenchCluster>> Start(const BenchClusterOptions& options);
  ~BenchCluster();
  BenchCluster(const BenchCluster&) = delete;
  BenchCluster& operator=(const BenchCluster&) = delete;

  const Layout& layout() const { return layout_; }
  uint64_t run() const { return run_; }
  uint32_t epoch() const { return epoch_; }
  const std::vector<uint32_t>& workers() const { return workers_; }  // their indices
  std::vector<std::string> data_endpoints() const;                   // by shard
  const std::vector<std::unique_ptr<Process>>& shards() const { return shards_; }

  // Sums over all shards so far.
  absl::StatusOr<ShardCounts> Counts() const;

  // OK, or why a process has ended or the coordinator ended the run, which says more than a load's
  // timeout.
  absl::Status Health();

  // Ends all processes as `longwave up` would. Aborted: one did not end well.
  absl::Status Stop();

 private:
  BenchCluster(const BenchClusterOptions& options, Layout layout)
      : options_(options), layout_(std::move(layout)) {}

  absl::Status StartProcesses();
  absl::Status RegisterWorkers();
  absl::Status AwaitBegin();
  void Beat();  // on its own thread
  void StopBeating();

  const BenchClusterOptions options_;
  const Layout layout_;
  std::unique_ptr<Process> coordinator_;
  std::vector<std::unique_ptr<Process>> shards_;
  std::unique_ptr<CoordinatorClient> client_;
  std::vector<std::unique_ptr<ShardClient>> shard_clients_;
  std::vector<uint32_t> workers_;
  std::vector<ShardAddress> addresses_;  // by shard
  uint64_t run_ = 0;
  uint32_t epoch_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::string ended_;  // the coordinator's reason when it told a worker to stop
  std::thread beating_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_CLUSTER_H_
