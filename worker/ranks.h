#ifndef LONGWAVE_WORKER_RANKS_H_
#define LONGWAVE_WORKER_RANKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/metrics/metrics.h"
#include "kernels/ops.h"
#include "worker/member/node_link.h"
#include "worker/models/device.h"
#include "worker/models/node_tensors.h"
#include "worker/node/collective.h"
#include "worker/node/node_processes.h"

namespace longwave {

// The place of this process in its worker: alone, or one of the train.ranks processes of a node.
// Rank 0 is the process that was started, and starts the others.
class Ranks {
 public:
  // place: that of a process that rank 0 has started, else empty. command: of this process. load:
  // called where no rank 0 gives its configuration.
  static absl::StatusOr<Ranks> Open(const std::string& place,
                                    const std::vector<std::string>& command,
                                    const std::function<absl::StatusOr<RunConfig>()>& load);

  const RunConfig& config() const { return config_; }
  NodeLink* link() const { return node_ == nullptr ? nullptr : &node_->link(); }
  uint32_t rank() const { return node_ == nullptr ? 0 : node_->link().node().rank; }

  // OK if all ranks have it. All ranks call.
  absl::Status Agree(const absl::Status& mine) const;
  // OK if all ranks have a device, of one kind. All ranks call.
  absl::Status AgreeOnDevice(const absl::StatusOr<Device>& mine) const;
  // Null: alone. metrics, unless null, show the seconds of the tensors' traffic. open_gloo: called
  // with train.collectives gloo. All ranks call.
  absl::StatusOr<std::unique_ptr<NodeTensors>> OpenTensors(const Layout* layout,
                                                           const KernelOps* ops, Exec exec,
                                                           Metrics* metrics,
                                                           OpenCollective& open_gloo) const;

 private:
  Ranks(RunConfig config, std::unique_ptr<NodeProcesses> node)
      : config_(std::move(config)), node_(std::move(node)) {}

  RunConfig config_;
  std::unique_ptr<NodeProcesses> node_;  // null: alone
};

// Whether a rank that ends with this error has to report it: rank 0 reports the node's, and knows
// what another rank has told it.
bool ReportsError(uint32_t rank, const absl::Status& ended);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_RANKS_H_
