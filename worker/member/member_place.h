#ifndef LONGWAVE_WORKER_MEMBER_MEMBER_PLACE_H_
#define LONGWAVE_WORKER_MEMBER_MEMBER_PLACE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
#include "common/layout/manifest.h"
#include "common/metrics/metrics.h"
#include "kernels/ops.h"
#include "worker/member/member.h"
#include "worker/member/node_link.h"
#include "worker/member/stop_signal.h"
#include "worker/sync/exchange.h"
#include "worker/sync/pipeline.h"

namespace longwave {

struct MemberPlaceOptions {
  RunConfig config;            // of the run; cluster.coordinator is the address to join at
  std::string name;            // unique among live workers
  std::string state_dir;       // folder of identity and checkpoints; empty: none
  Manifest manifest;           // of the parameters
  std::vector<Alike> alike;    // see RegisterWorker; of a node rank 0's
  Metrics* metrics = nullptr;  // of the process, of part kWorker; null: none
  // A rank of a node of several processes, which are one worker: they have the same options. Rank 0
  // holds the folder and the credentials, and talks to the coordinator. Null: one device.
  NodeLink* link = nullptr;

  // For tests: an observer of the exchange, and options that the configuration lacks. Null: none.
  std::function<std::unique_ptr<Exchange>(std::unique_ptr<Exchange>)> wrap_exchange;
  std::function<void(SyncOptions*)> adjust_sync;
};

// The caller's parameters, flat in Layout::Create's order of the manifest. They outlive the place.
struct MemberArrays {
  float* theta = nullptr;          // [Layout::parameter_count()]
  float* gradient = nullptr;       // likewise; null if the run's signal is the pseudo-gradient
  const KernelOps* ops = nullptr;  // of the arrays' device
  Exec exec;
  // The first weights of every replica, flat, in host memory.
  std::function<absl::StatusOr<std::vector<float>>()> initial_weights;
  // Runs the wait for the run's beginning, on any thread; null: the caller's thread waits. Memory
  // is taken on the caller's thread, whose current GPU is the arrays'.
  std::function<absl::Status(absl::FunctionRef<absl::Status()>)> wait;
};

// A worker's place in a run: folder, credentials, registration and heartbeats, connections to the
// shards. From a coordinator's address it makes the parts of a TrainingMember, without LibTorch,
// data or model. tests/unit/worker/member/linear_model_test.cc is a complete worker around it.
class MemberPlace {
 public:
  // Opens folder and credentials, without contacting the run. metrics and stop outlive the place,
  // and the run's end may set stop. InvalidArgument: the manifest. FailedPrecondition: the
  // credentials. Unavailable: another process holds the folder.
  static absl::StatusOr<std::unique_ptr<MemberPlace>> Open(MemberPlaceOptions options,
                                                           StopSignal* stop);
  virtual ~MemberPlace() = default;

  virtual const Layout& layout() const = 0;

  // Registers, with retries while there is no answer. Returns the worker's index, which may change
  // until Begin returns. start: this replica's first weights, flat, in host memory; empty: none, so
  // that the worker fetches all weights. Cancelled: stop. Unavailable: no answer for
  // cluster.start_timeout_s. Other errors: the coordinator's refusal.
  // In a node all ranks call, and `start` has this rank's segments; other elements are ignored.
  virtual absl::StatusOr<uint32_t> Join(std::span<const float> start) = 0;
  // Called instead of Join by a worker that cannot join: tells the coordinator, if it answers, so
  // that the run does not wait.
  virtual void FailToJoin(const std::string& reason) = 0;
  // How the run has ended, if the coordinator answers and says so.
  virtual std::optional<RunPhase> EndOfRun() = 0;

  // Members of the run, including this worker; 0: not known yet.
  virtual uint32_t members() const = 0;

  // Tells the coordinator a warning for people, once the worker has registered. Thread-safe.
  virtual void Warn(const std::string& text) = 0;

  // Waits for the run's beginning and connects to its shards. The parts lack a loop. Parts and
  // arrays are used until the place is destroyed.
  virtual absl::StatusOr<MemberParts> Begin(const MemberArrays& arrays) = 0;

  // Called after a successful Join, with the result of training: reports a failure, or leaves the
  // run if the worker was stopped before its end. Returns the result for the caller: the failure,
  // OK, or the coordinator's reason (Aborted).
  virtual absl::Status End(const absl::Status& trained) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_MEMBER_PLACE_H_
