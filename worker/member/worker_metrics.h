#ifndef LONGWAVE_WORKER_MEMBER_WORKER_METRICS_H_
#define LONGWAVE_WORKER_MEMBER_WORKER_METRICS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/metrics/metrics.h"
#include "common/wire/buffer.h"
#include "kernels/ops.h"
#include "worker/core/worker_core.h"
#include "worker/member/control_plane.h"

namespace longwave {

// A worker's metrics. The trainer's thread updates them, and the page's only reads. Norm and cosine
// of merged updates cost more than a few additions, so they are measured in as many syncs as take
// kMeasuringShare of the time.
class WorkerMetrics {
 public:
  static constexpr double kMeasuringShare = 0.002;

  // metrics: null: not served. ranks: of the worker's node. All but config outlive this object.
  WorkerMetrics(Metrics* metrics, const Layout* layout, const RunConfig& config,
                const ControlPlane* host, uint32_t ranks);

  // The label `phase` of time, for PhaseTimer.
  enum class Phase : uint8_t {
    kData,
    kForwardBackward,
    kOptimizer,
    kEncode,
    kSend,     // passing contributions to the exchange
    kJournal,  // waiting until pushes are on the disk
    kWait,     // for merged updates
    kDecode,
    kValidate,
    kCheckpoint,
    kCatchUp,
    kOther  // what a sync takes beside the phases that have a name
  };
  Counter* seconds(Phase phase) const { return seconds_[static_cast<size_t>(phase)]; }
  // Sum over the phases of which a sync consists, kOther included.
  double SyncSeconds() const;
  // A sentence for the log: where the time since the last call went. seconds_computing: of this
  // worker, as in its state.
  std::string TakeSeconds(double seconds_computing);

  // Counts before this process, which its counters leave out: their rate would jump when a worker
  // comes back.
  void ContinueFrom(const WorkerState& state);
  void Show(const WorkerState& state);
  void ShowLearningRate(double learning_rate) {
    metrics_.gauge("longwave_worker_learning_rate").Set(learning_rate);
  }
  void ShowGradientNorm(double norm) { metrics_.gauge("longwave_worker_gradient_norm").Set(norm); }
  void ShowValidationLoss(double loss) {
    metrics_.gauge("longwave_worker_validation_loss").Set(loss);
  }
  void StepDone(absl::Duration took);
  void StepsSkipped(uint64_t count) {
    metrics_.counter("longwave_worker_skipped_steps_total").Add(static_cast<double>(count));
  }
  // newest_open: the newest known open round of any segment.
  void RoundDone(uint32_t round, uint32_t newest_open);
  void ShowDevice(const KernelOps& ops);

  void SyncBegins();
  // A contribution, before it is posted.
  void OnPush(const SegmentPush& push, const EncodeReport& report);
  // The fate of a contribution.
  void OnSettled(const Settled& settled);
  // blocked: the time that the sync kept the trainer from computing.
  void SyncDone(absl::Duration blocked);

  // Of this rank's segments and device: sums, so that a node's figures are the sums of its ranks'.
  const std::vector<double>& figures() const { return figures_; }
  // Called in a node, with the sums over the ranks.
  void ShowFigures(const std::vector<double>& figures);

  // Totals since the process began.
  void ShowCore(const WorkerCore::Counts& counts);
  void ShowRenewals(uint64_t count) {
    metrics_.counter("longwave_worker_connections_renewed_total").Show(static_cast<double>(count));
  }
  void ShowCheckpoints(uint64_t written, uint64_t failed);

 private:
  // Indices of figures().
  enum Figure { kSignal, kMomentum, kSent, kUpdate, kPayload, kGpuFree, kGpuUsed, kFigureCount };
  // Figures of a segment's last sync.
  struct Segment {
    double signal_square_sum = 0;
    double momentum_square_sum = 0;
    double sent_square_sum = 0;
    double update_square_sum = 0;
    uint64_t payload_bytes = 0;
  };

  void RefreshPage();
  void Measure(const Settled& settled);

  const std::unique_ptr<Metrics> own_metrics_;
  Metrics& metrics_;
  const Layout* const layout_;
  const uint64_t run_seed_;
  const double flops_per_token_;  // 0: unknown
  const ControlPlane* const host_;

  WorkerState before_;             // counts of earlier processes
  std::vector<Counter*> seconds_;  // by Phase
  std::vector<double> told_;       // by Phase, as of the last TakeSeconds
  double told_computing_ = 0;      // likewise
  Counter& steps_;
  Counter& rounds_;
  Counter& ddp_bytes_;
  Counter& diloco_bytes_;
  Histogram& step_seconds_;
  Histogram& sync_seconds_;

  const uint32_t ranks_;
  std::vector<double> figures_ = std::vector<double>(kFigureCount);
  std::vector<Segment> segments_;
  const absl::Time began_;
  absl::Duration measuring_;  // time spent measuring so far
  bool measures_ = false;     // the current sync is measured
  bool has_synced_ = false;
  bool has_updates_ = false;    // of all segments
  uint32_t sampled_ = 0;        // the segment whose cosine is measured next
  std::optional<Buffer> sent_;  // payload of that segment in this sync

  std::atomic<int64_t> checkpoint_at_ns_ = 0;      // of MonotonicNow; 0: none yet
  std::unique_ptr<Metrics::Refresher> refresher_;  // last, since it reads the members above
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_WORKER_METRICS_H_
