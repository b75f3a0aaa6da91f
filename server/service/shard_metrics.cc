#include "server/service/shard_metrics.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/enum_name.h"

namespace longwave {
namespace {

// The label `outcome`; empty: no answer to a push.
std::string_view OutcomeOf(Outcome outcome) {
  if (outcome == Outcome::kNone) return "";
  return outcome == Outcome::kNotMember ? "not_member" : Name(outcome);
}

// The label `reason`; empty: no rejection.
std::string_view ReasonOf(Rejection rejection) {
  return EnumName(rejection, {"", "address", "round", "weight", "norm", "payload"});
}

}  // namespace

ShardMetrics::ShardMetrics(Metrics* metrics, uint32_t shard, std::string state_dir,
                           uint64_t open_bytes_max, bool writes_models)
    : metrics_(metrics),
      state_dir_(std::move(state_dir)),
      writes_models_(writes_models),
      close_seconds_(metrics->histogram("longwave_shard_close_seconds")),
      merge_seconds_(metrics->histogram("longwave_shard_merge_seconds")),
      disk_(*metrics),
      states_{.written = 0, .at = MonotonicNow()},
      models_{.written = 0, .at = MonotonicNow()} {
  metrics->SetLabel("shard", absl::StrCat(shard));
  SetMemoryLimit(open_bytes_max);
}

void ShardMetrics::SetMemoryLimit(uint64_t open_bytes_max) {
  metrics_->gauge("longwave_shard_memory_limit_bytes").Set(open_bytes_max);
}

void ShardMetrics::SetRun(uint64_t run) {
  metrics_->SetLabelIfNone("run", absl::StrFormat("%016x", run));
}

void ShardMetrics::SetSegments(uint32_t first, uint32_t count) {
  first_segment_ = first;
  segments_.assign(count, Segment());
}

ShardMetrics::Segment* ShardMetrics::Find(uint32_t segment) {
  const uint32_t place = segment - first_segment_;
  return place < segments_.size() ? &segments_[place] : nullptr;
}

void ShardMetrics::Answered(const AnswerFrame& answer, Rejection rejection, absl::Time now) {
  if (answer.to != FrameKind::kPush) return;
  if (const std::string_view outcome = OutcomeOf(answer.outcome); !outcome.empty())
    metrics_->counter("longwave_shard_pushes_total", {outcome}).Add();
  if (const std::string_view reason = ReasonOf(rejection); !reason.empty())
    metrics_->counter("longwave_shard_pushes_rejected_total", {reason}).Add();
  Segment* const segment = Find(answer.segment);
  if (segment == nullptr || answer.outcome != Outcome::kAccepted) return;
  if (segment->first_push_round == answer.round) return;
  segment->first_push_round = answer.round;
  segment->first_push = now;
}

void ShardMetrics::Merged(const MergedFrame& merged, absl::Time now) {
  Segment* const segment = Find(merged.segment);
  if (segment == nullptr || merged.round < segment->next_to_close) return;
  segment->next_to_close = merged.round + 1;
  closed_ = true;
  // An update that is sent again from before a restart was closed by an earlier process.
  if (segment->first_push_round == merged.round)
    close_seconds_.Observe(absl::ToDoubleSeconds(now - segment->first_push));
}

uint32_t ShardMetrics::residual_segment() const { return first_segment_ + residual_next_; }

void ShardMetrics::ObserveResidual(double square_sum, absl::Time began, absl::Time ended) {
  closed_ = false;
  residual_at_ = ended + (ended - began) / kResidualShare;
  segments_[residual_next_].residual_square_sum = square_sum;
  const auto count = static_cast<uint32_t>(segments_.size());
  residual_next_ = (residual_next_ + 1) % count;
  residuals_taken_ = std::min(residuals_taken_ + 1, count);
  if (residuals_taken_ < count) return;
  double sum = 0;
  for (const Segment& segment : segments_) sum += segment.residual_square_sum;
  metrics_->gauge("longwave_shard_residual_norm").Set(std::sqrt(sum));
}

void ShardMetrics::Snapshots::Observe(uint64_t count) {
  if (count == written) return;
  written = count;
  at = MonotonicNow();
}

void ShardMetrics::Show(const ShardFigures& figures, const Refusals& refusals,
                        absl::Duration coordinator_silence) {
  const auto set = [this](std::string_view name, auto value) { metrics_->gauge(name).Set(value); };
  const auto show = [this](std::string_view name, uint64_t total) {
    metrics_->counter(name).Show(total);
  };
  if (figures.state.open_round != kRoundNever)
    set("longwave_shard_round", figures.state.open_round);
  set("longwave_shard_newest_round", figures.state.newest_round);
  set("longwave_shard_epoch", figures.epoch);
  set("longwave_shard_members", figures.members);
  set("longwave_shard_segments", figures.segments);
  set("longwave_shard_open_segments", figures.open.segments);
  set("longwave_shard_open_bytes", figures.open.bytes);
  set("longwave_shard_waited_for", figures.open.waited_for);
  set("longwave_shard_connections", figures.connections);
  set("longwave_shard_queued_frames", figures.frames_queued);
  set("longwave_shard_queued_bytes", figures.bytes_queued);
  set("longwave_shard_troubled", figures.troubled);
  set("longwave_shard_segments_restoring", figures.restoring);
  set("longwave_shard_coordinator_silence_seconds", absl::ToDoubleSeconds(coordinator_silence));
  show("longwave_shard_pushes_clipped_total", figures.state.pushes_clipped);
  show("longwave_shard_segments_closed_total", figures.state.segments_closed);
  show("longwave_shard_segments_closed_by_quorum_total", figures.state.closed_by_quorum);
  show("longwave_shard_frames_unsent_total", figures.frames_unsent);
  ShowRefusals(figures, refusals);
  ShowTraffic(figures.traffic);
  ShowDisk(figures);
}

void ShardMetrics::ShowRefusals(const ShardFigures& figures, const Refusals& refusals) {
  const auto show = [this](std::string_view name, std::string_view reason, uint64_t count) {
    metrics_->counter(name, {reason}).Show(count);
  };
  const uint64_t of_others = refusals.of(Refusal::kDataWorker);
  show("longwave_shard_frames_refused_total", "identity", of_others);
  show("longwave_shard_frames_refused_total", "malformed",
       figures.frames_refused - std::min(figures.frames_refused, of_others));
  metrics_->counter("longwave_shard_connections_refused_total")
      .Show(refusals.of(Refusal::kDataConnection));
  for (const Refusal refusal : kPeerRefusals)
    show("longwave_shard_peers_refused_total", Name(refusal), refusals.of(refusal));
}

void ShardMetrics::ShowTraffic(const LinkTraffic& traffic) {
  for (const auto& [direction, by_kind] :
       {std::pair{"sent", &traffic.sent}, std::pair{"received", &traffic.received}}) {
    for (size_t i = 1; i <= TrafficByKind::kKinds; ++i) {
      const auto kind = static_cast<FrameKind>(i);
      const Traffic& of_kind = (*by_kind)[kind];
      const auto show = [&, way = direction](std::string_view name, uint64_t total) {
        metrics_->counter(name, {way, Name(kind)}).Show(total);
      };
      show("longwave_shard_bytes_total", of_kind.bytes);
      show("longwave_shard_payload_bytes_total", of_kind.payload_bytes);
      show("longwave_shard_frames_total", of_kind.frames);
    }
  }
}

void ShardMetrics::ShowDisk(const ShardFigures& figures) {
  states_.Observe(figures.states_written);
  models_.Observe(figures.models_written);
  for (const auto& [kind, snapshots] :
       {std::pair{"state", &states_}, std::pair{"model", &models_}}) {
    metrics_->counter("longwave_shard_snapshots_written_total", {kind}).Show(snapshots->written);
    if (state_dir_.empty() || (snapshots == &models_ && !writes_models_)) continue;
    metrics_->gauge("longwave_shard_snapshot_age_seconds", {kind})
        .Set(absl::ToDoubleSeconds(MonotonicNow() - snapshots->at));
  }
  if (state_dir_.empty()) return;
  const auto set = [this](std::string_view name, auto value) { metrics_->gauge(name).Set(value); };
  set("longwave_shard_log_bytes", figures.state.log_bytes);
  set("longwave_shard_snapshot_bytes", figures.state.snapshot_bytes);
  set("longwave_shard_log_age_seconds", absl::ToDoubleSeconds(disk_.SinceSync()));
  struct statvfs disk;
  if (statvfs(state_dir_.c_str(), &disk) != 0) return;
  const auto block = static_cast<double>(disk.f_frsize);
  set("longwave_shard_disk_free_bytes", block * static_cast<double>(disk.f_bavail));
  set("longwave_shard_disk_size_bytes", block * static_cast<double>(disk.f_blocks));
}

}  // namespace longwave
