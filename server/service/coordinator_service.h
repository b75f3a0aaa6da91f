#ifndef LONGWAVE_SERVER_SERVICE_COORDINATOR_SERVICE_H_
#define LONGWAVE_SERVER_SERVICE_COORDINATOR_SERVICE_H_

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
  std::string run_dir;  // folder of metrics.jsonl; empty: none
  // Folder of the coordinator's record, from which a restarted coordinator continues the run;
  // empty: none. One run a folder.
  std::string state_dir;
  // host:port of a health server for probes without a certificate (common/rpc/health_server.h). The
  // server is ready while decisions can be made durable. Empty: none.
  std::string health_address;
  // The process's metrics, of part kCoordinator; outlives the service. Null: not served.
  Metrics* metrics = nullptr;
  bool exit_when_done = false;    // end with the run; false: answer calls until told to end
  bool continues_failed = false;  // see CoordinatorOptions
  bool takes_as_newest = false;   // likewise
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

  // Serves until the end, which comes by `stop`, by StopRun, or with exit_when_done by the end of
  // the run. On `stop` a coordinator with a state folder ends at once, and the run goes on after a
  // restart. Without a folder it stops the run and gives the members a moment to hear of it. In the
  // other cases the service ends once all members have been told to stop, or a few seconds later.
  // Returns OK, or Aborted with the reason if exit_when_done is set and the run failed. Call once.
  virtual absl::Status Run(std::stop_token stop) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_COORDINATOR_SERVICE_H_
