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
  // What it announces instead of what it has bound, where others reach it elsewhere (a name, a
  // forwarded port); empty: what it has bound. host:port, with tcp:// before it or not; or those of
  // all shards in their order, separated by commas, so that all can have one command line.
  std::string advertised_data;
  std::string advertised_control;
  // host:port of a health server for probes without a certificate (common/rpc/health_server.h):
  // ready once the coordinator knows this shard and pushes are taken. Empty: none.
  std::string health_address;
  // Stays when the run is over, so that whoever restarts what has ended does not, until told to
  // end.
  bool stay_when_done = false;
  // Where the shard keeps what must not be lost (proto/LOG.md); empty: it keeps nothing. One run
  // and shard a folder.
  std::string state_dir;
  // The process's series, of part kShard; outlives the service. Null: nobody looks at them.
  Metrics* metrics = nullptr;
};

// One aggregation server: the shard's pure state behind a ZeroMQ socket, a gRPC service for those
// who ask how it does, and the heartbeat to the coordinator. The data plane runs on while the
// coordinator does not answer.
//
// With a folder the process may end at any moment and be started again: it registers with the run
// that its folder holds, and goes on where it was. Without one, or with an empty one in the midst
// of a run, it restores its segments from the workers' replicas (ReplicaRestore). A disk that fails
// or is full, and a folder that is damaged or from an older time, show in the heartbeat as trouble,
// during which pushes are answered busy and the folder is opened again now and then.
//
// Memory, what the configuration bounds: pushes to open rounds take cluster.shard_memory_mb at most
// (0: half of what was available at the start, shared with the run's other shards on this machine),
// and what waits in the socket's queues a quarter of that each way, in frames of the configured
// formats (shard_memory.h). What exceeds a bound waits at the worker, or is answered busy.
//
// What the model's size bounds: the aggregator's residual and tables (aggregator.h), one merged
// update a segment, the frames of one commit (ShardCore::kBatchBytes); with a folder also one
// snapshot a segment while its verdict is awaited, 4 bytes a coefficient of the shard (8 with a
// nesterov velocity) before compression, and without one as much of a restored model.
// What the number of joining workers bounds: each that catches up has its own copies of what it
// asked for under way, of at most Pacer::kAskedMax frames or a send queue's.
class ShardService {
 public:
  // Opens its ports, and reads whose state_dir it is. Errors: a port in use, an address that is
  // none, a folder that is another process's or none of a shard.
  static absl::StatusOr<std::unique_ptr<ShardService>> Start(const ShardServiceOptions& options);
  virtual ~ShardService() = default;

  virtual std::string data_endpoint() const = 0;
  virtual std::string control_address() const = 0;
  // What it tells the coordinator, for others to connect to.
  virtual std::string advertised_data() const = 0;
  virtual std::string advertised_control() const = 0;
  virtual std::string health_address() const = 0;  // empty: none

  // Registers with the coordinator (again, where it has lost its place before the run began: it was
  // stopped for longer than the heartbeat timeout, say), calls `ready`, and serves until the
  // coordinator says stop or `stop` is requested (OK); with stay_when_done until the latter.
  // Errors: the coordinator refused this shard or cannot be reached for cluster.start_timeout_s
  // while no worker is heard either; the manifest does not fit; the socket failed. Call it once.
  virtual absl::Status Run(std::stop_token stop, const std::function<void()>& ready) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_SHARD_SERVICE_H_
