#ifndef LONGWAVE_SERVER_SERVICE_SHARD_SERVICE_H_
#define LONGWAVE_SERVER_SERVICE_SHARD_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/metrics/metrics.h"

namespace longwave {

struct ShardServiceOptions {
  RunConfig config;
  uint32_t shard = 0;
  std::string coordinator;      // host:port
  std::string data_endpoint;    // tcp://host:port, port 0 for any free one
  std::string control_address;  // host:port, likewise
  // The address to announce if others reach the shard elsewhere than at the bound address (a name,
  // a forwarded port); empty: the bound address. host:port, with or without tcp://. A list of all
  // shards' addresses in order, separated by commas, lets all shards share one command line.
  std::string advertised_data;
  std::string advertised_control;
  // host:port of a health server for probes without a certificate (common/rpc/health_server.h). The
  // server is ready once the coordinator knows this shard and pushes are taken. Empty: none.
  std::string health_address;
  // Keep the process after the end of the run until told to end, so that no supervisor restarts it.
  bool stay_when_done = false;
  // Folder of the durable state (proto/LOG.md); empty: none. One run and shard a folder.
  std::string state_dir;
  // The process's metrics, of part kShard; outlives the service. Null: not served.
  Metrics* metrics = nullptr;
};

// An aggregation server: the shard's pure state behind a ZeroMQ socket, a gRPC service for status
// calls, and heartbeats to the coordinator. The data plane continues while the coordinator does not
// answer.
//
// With a folder the process may end at any moment. A restarted process registers with the run of
// its folder and continues. Without a folder, or with an empty one during a run, the shard restores
// its segments from the workers' replicas (ReplicaRestore). A disk that fails or is full, and a
// folder that is damaged or from an older time, appear in the heartbeat as trouble. During trouble
// pushes are answered busy, and the shard retries to open the folder now and then. A folder that is
// being opened, and a disk that does not answer, are trouble too, and heartbeats go on.
//
// Memory bounded by the configuration: pushes to open rounds take at most cluster.shard_memory_mb
// (0: half of the memory available at the start, shared with the run's other shards on this
// machine). The socket's queues take a quarter of that each way, in frames of the configured
// formats (shard_memory.h). A push beyond a bound waits at the worker, or is answered busy.
//
// Memory bounded by the model's size: the aggregator's residual and tables (aggregator.h), one
// merged update a segment, the frames of one commit (ShardCore::kBatchBytes). With a folder, one
// snapshot a segment until its hash check: 4 bytes a coefficient of the shard (8 with a nesterov
// velocity) before compression. Without a folder, as much of a restored model. Memory bounded by
// the number of joining workers: each that catches up has copies of the frames that it requested,
// at most Pacer::kRequestsMax or a send queue's.
class ShardService {
 public:
  // Opens the ports, and reads the owner of state_dir. Errors: a port in use, a malformed address,
  // a folder that another process holds or that is not a shard's.
  static absl::StatusOr<std::unique_ptr<ShardService>> Start(const ShardServiceOptions& options);
  virtual ~ShardService() = default;

  virtual std::string data_endpoint() const = 0;
  virtual std::string control_address() const = 0;
  // The addresses announced to the coordinator.
  virtual std::string advertised_data() const = 0;
  virtual std::string advertised_control() const = 0;
  virtual std::string health_address() const = 0;  // empty: none

  // Registers with the coordinator, calls `ready`, and serves until the coordinator says stop or
  // `stop` is requested (OK); with stay_when_done until `stop`. Registers again if the shard has
  // lost its place before the run began, for example after a pause longer than the heartbeat
  // timeout. Errors: the coordinator refused this shard, or did not answer for
  // cluster.start_timeout_s while no worker was heard either; the manifest does not fit; the socket
  // failed. Call once.
  virtual absl::Status Run(std::stop_token stop, const std::function<void()>& ready) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_SHARD_SERVICE_H_
