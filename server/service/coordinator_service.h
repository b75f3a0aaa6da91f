#ifndef LONGWAVE_SERVER_SERVICE_COORDINATOR_SERVICE_H_
#define LONGWAVE_SERVER_SERVICE_COORDINATOR_SERVICE_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/metrics/metrics.h"

namespace longwave {

struct CoordinatorServiceOptions {
  RunConfig config;
  std::string address;  // host:port, port 0 for any free one
  std::string run_dir;  // where metrics.jsonl goes; empty: nowhere
  // Where it keeps what it knows, so that it can be started again at any time and the run goes on;
  // empty: nowhere. One run a folder.
  std::string state_dir;
  // host:port of a health server for probes without a certificate (common/rpc/health_server.h):
  // ready while what it decides can be kept, so that it answers. Empty: none.
  std::string health_address;
  // The process's series, of part kCoordinator; outlives the service. Null: nobody looks at them.
  Metrics* metrics = nullptr;
  bool exit_when_done = false;  // end with the run; otherwise stay, to be asked, until told to end
};

// The coordinator of one run: the pure state machine behind gRPC, with the real clock.
class CoordinatorService {
 public:
  // Opens the port and serves. Errors: the port in use, a run folder that cannot be written.
  static absl::StatusOr<std::unique_ptr<CoordinatorService>> Start(
      const CoordinatorServiceOptions& options);
  virtual ~CoordinatorService() = default;

  virtual std::string address() const = 0;
  virtual std::string health_address() const = 0;  // empty: none

  // Serves until it is to end. By `stop`: at once, if it has a folder from which the run goes on as
  // soon as it is started again; without one a run under way is stopped, and its members have a
  // moment to hear of it. By StopRun, or exit_when_done with the end of the run: once all members
  // have been told to stop, or a few seconds later. OK, unless exit_when_done and the run failed:
  // Aborted, with the reason. Call it once.
  virtual absl::Status Run(std::stop_token stop) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_COORDINATOR_SERVICE_H_
