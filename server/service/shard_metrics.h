#ifndef LONGWAVE_SERVER_SERVICE_SHARD_METRICS_H_
#define LONGWAVE_SERVER_SERVICE_SHARD_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/log/refusals.h"
#include "common/metrics/metrics.h"
#include "common/wire/frame.h"
#include "common/wire/traffic.h"
#include "server/service/disk_figures.h"
#include "server/shard/aggregator.h"

namespace longwave {

// State of a shard's data plane at a moment between two frames.
struct ShardFigures {
  absl::Time last_frame = absl::InfinitePast();  // of a member; none yet
  ShardState state;
  bool troubled = false;
  size_t restoring = 0;  // segments
  uint32_t epoch = 0;
  size_t members = 0;
  size_t connections = 0;
  size_t segments = 0;
  Aggregator::OpenFigures open;
  LinkTraffic traffic;
  uint64_t frames_refused = 0;
  uint64_t frames_unsent = 0;
  uint64_t frames_queued = 0;
  uint64_t bytes_queued = 0;
  uint64_t states_written = 0;  // snapshots of segments, by this process
  uint64_t models_written = 0;
};

// A shard's metrics. The data plane's thread calls the functions for events, the metrics page calls
// Show.
class ShardMetrics {
 public:
  // metrics: outlives this object. state_dir: empty without a folder. writes_models: whether the
  // run has snapshots of the parameters (CanCatchUp).
  ShardMetrics(Metrics* metrics, uint32_t shard, std::string state_dir, uint64_t open_bytes_max,
               bool writes_models);

  void SetRun(uint64_t run);  // for the label, if the run has no name
  void SetMemoryLimit(uint64_t open_bytes_max);
  // Called once the layout is known.
  void SetSegments(uint32_t first, uint32_t count);

  // --- events
  void Answered(const AnswerFrame& answer, Rejection rejection, absl::Time now);
  // A merged update is sent, for the first time or again.
  void Merged(const MergedFrame& merged, absl::Time now);
  void HeardStranger() {
    metrics_->counter("longwave_shard_frames_refused_total", {"stranger"}).Add();
  }
  void DroppedWrongKind() {
    metrics_->counter("longwave_shard_frames_refused_total", {"wrong_kind"}).Add();
  }
  void LeftOut() { metrics_->counter("longwave_shard_pushes_left_out_total").Add(); }
  // A segment's residual is measured now and then, for at most kResidualShare of the time.
  static constexpr double kResidualShare = 0.01;
  bool WantsResidual(absl::Time now) const { return closed_ && now >= residual_at_; }
  uint32_t residual_segment() const;  // the next one to be measured
  void ObserveResidual(double square_sum, absl::Time began, absl::Time ended);

  DiskFigures& disk() { return disk_; }
  Histogram& merge_seconds() { return merge_seconds_; }

  // --- for the page
  void Show(const ShardFigures& figures, const Refusals& refusals,
            absl::Duration coordinator_silence);
  Metrics* page() { return metrics_; }

 private:
  struct Segment {
    std::optional<uint32_t> first_push_round;
    absl::Time first_push;
    uint32_t next_to_close = 0;
    double residual_square_sum = 0;
  };

  Segment* Find(uint32_t segment);
  void ShowRefusals(const ShardFigures& figures, const Refusals& refusals);
  void ShowTraffic(const LinkTraffic& traffic);
  void ShowDisk(const ShardFigures& figures);
  // Time since a count of snapshots last grew.
  struct Snapshots {
    uint64_t written = 0;
    absl::Time at;
    void Observe(uint64_t count);
  };

  Metrics* const metrics_;
  const std::string state_dir_;
  const bool writes_models_;
  Histogram& close_seconds_;
  Histogram& merge_seconds_;
  DiskFigures disk_;

  uint32_t first_segment_ = 0;
  std::vector<Segment> segments_;
  bool closed_ = false;  // a segment has closed since the last residual was measured
  absl::Time residual_at_ = absl::InfinitePast();
  uint32_t residual_next_ = 0;
  uint32_t residuals_taken_ = 0;  // counts until all were measured

  Snapshots states_;
  Snapshots models_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_SHARD_METRICS_H_
