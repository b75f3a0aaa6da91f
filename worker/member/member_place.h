#ifndef LONGWAVE_WORKER_MEMBER_MEMBER_PLACE_H_
#define LONGWAVE_WORKER_MEMBER_MEMBER_PLACE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"
#include "common/metrics/metrics.h"
#include "kernels/ops.h"
#include "worker/member/member.h"
#include "worker/member/stop_signal.h"
#include "worker/sync/exchange.h"
#include "worker/sync/pipeline.h"

namespace longwave {

struct MemberPlaceOptions {
  RunConfig config;            // the run's; cluster.coordinator is where it joins
  std::string name;            // one live worker each
  std::string state_dir;       // where it keeps identity and checkpoints; empty: nowhere
  Manifest manifest;           // of the parameters
  Metrics* metrics = nullptr;  // of the process, of part kWorker; null: nobody looks at them

  // Of tests: what looks on, and what the configuration does not offer. Null: nothing.
  std::function<std::unique_ptr<Exchange>(std::unique_ptr<Exchange>)> wrap_exchange;
  std::function<void(SyncOptions*)> adjust_sync;
};

// The caller's parameters, flat as Layout::Create orders the manifest, which outlive the place.
struct MemberArrays {
  float* theta = nullptr;          // [Layout::parameter_count()]
  float* gradient = nullptr;       // likewise; null where the run's signal is the pseudo-gradient
  const KernelOps* ops = nullptr;  // of their device
  Exec exec;
  // What every replica of the run begins with, flat, in host memory.
  std::function<absl::StatusOr<std::vector<float>>()> initial_weights;
};

// A worker's place in a run, from the address of its coordinator to the parts that a TrainingMember
// works with: folder, credentials, registration and heartbeats, connections to the shards. Without
// LibTorch, data or model. tests/unit/worker/member/linear_model_test.cc is a whole worker around
// it.
class MemberPlace {
 public:
  // Opens folder and credentials; nobody hears of it. metrics and stop outlive the place; stop is
  // set where the run's end asks for it. InvalidArgument: the manifest. FailedPrecondition: the
  // credentials. Unavailable: another process has the folder.
  static absl::StatusOr<std::unique_ptr<MemberPlace>> Open(MemberPlaceOptions options,
                                                           StopSignal* stop);
  virtual ~MemberPlace() = default;

  virtual const Layout& layout() const = 0;

  // Registers, again and again while nobody answers; returns the worker's index, which may change
  // until Begin returns. start: the weights that this replica begins with, flat, in host
  // memory. Cancelled: stop. Unavailable: no answer for cluster.start_timeout_s.
  // Others: the coordinator's refusal.
  virtual absl::StatusOr<uint32_t> Join(std::span<const float> start) = 0;
  // Instead of Join, of a worker that will not come: tells the coordinator, if that is there, so
  // that the others need not wait.
  virtual void FailToJoin(const std::string& reason) = 0;
  // Whether a coordinator answers and says so.
  virtual bool RunIsOver() = 0;

  // Of the run, this worker included; 0: the coordinator has not told yet.
  virtual uint32_t members() const = 0;

  // Waits for the run's beginning and connects to its shards. The parts lack a loop; they, and the
  // arrays, are used until the place is gone.
  virtual absl::StatusOr<MemberParts> Begin(const MemberArrays& arrays) = 0;

  // Once training has ended so, and Join had succeeded: a failure is told, and a worker that was
  // stopped before the run was over leaves. Returns how that looks from outside: the failure, OK,
  // or the coordinator's reason (Aborted).
  virtual absl::Status End(const absl::Status& trained) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_MEMBER_PLACE_H_
