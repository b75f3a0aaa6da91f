#include "worker/member/worker_metrics.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/config/gpt_shape.h"
#include "common/wire/payload.h"
#include "common/wire/square_sum.h"
#include "worker/member/payload_cosine.h"

namespace longwave {
namespace {

constexpr double kBytesOfAParameter = 4;

using Phase = WorkerMetrics::Phase;
struct SyncPhase {
  Phase phase;
  const char* name;  // in the log
};
// The phases of which a sync consists.
constexpr SyncPhase kSyncPhases[] = {
    {Phase::kEncode, "encoding"}, {Phase::kCheckpoint, "checkpoint"}, {Phase::kSend, "sending"},
    {Phase::kJournal, "journal"}, {Phase::kWait, "waiting"},          {Phase::kDecode, "decoding"},
    {Phase::kOther, "other"}};

// Σ v² over the payload's values; nothing if the payload does not fit the segment.
std::optional<double> SquareSumOf(const Layout& layout, uint32_t segment, const Buffer& payload) {
  const absl::StatusOr<PayloadFormat> format = DecodePayloadHead(payload.bytes());
  if (!format.ok()) return std::nullopt;
  const auto form = PayloadLayout::Create(*format, layout.TileSizes(segment));
  if (!form.ok() || form->bytes() != payload.size()) return std::nullopt;
  return PayloadSquareSum(*form, payload.bytes());
}

}  // namespace

WorkerMetrics::WorkerMetrics(Metrics* metrics, const Layout* layout, const RunConfig& config,
                             const ControlPlane* host, uint32_t ranks)
    : own_metrics_(metrics == nullptr ? std::make_unique<Metrics>(MetricPart::kWorker) : nullptr),
      metrics_(metrics == nullptr ? *own_metrics_ : *metrics),
      layout_(layout),
      run_seed_(config.run.seed),
      flops_per_token_(config.model.kind == "gpt" ? GptFlopsPerToken(config.model) : 0),
      host_(host),
      steps_(metrics_.counter("longwave_worker_steps_total")),
      rounds_(metrics_.counter("longwave_worker_rounds_total")),
      ddp_bytes_(metrics_.counter("longwave_worker_ddp_bytes_total")),
      diloco_bytes_(metrics_.counter("longwave_worker_diloco_bytes_total")),
      step_seconds_(metrics_.histogram("longwave_worker_step_seconds")),
      sync_seconds_(metrics_.histogram("longwave_worker_sync_seconds")),
      ranks_(ranks),
      segments_(layout->segments().size()),
      began_(MonotonicNow()) {
  for (const char* phase : {"data", "forward_backward", "optimizer", "encode", "send", "journal",
                            "wait", "decode", "validate", "checkpoint", "catch_up", "other"}) {
    seconds_.push_back(&metrics_.counter("longwave_worker_phase_seconds_total", {phase}));
  }
  metrics_.gauge("longwave_worker_parameters").Set(layout->parameter_count());
  metrics_.gauge("longwave_worker_ranks").Set(ranks);
  if (config.metrics.peak_tflops > 0)
    metrics_.gauge("longwave_worker_peak_flops").Set(config.metrics.peak_tflops * 1e12 * ranks);
  refresher_ = metrics_.OnPage([this] { RefreshPage(); });
}

double WorkerMetrics::SyncSeconds() const {
  double sum = 0;
  for (const auto& [phase, name] : kSyncPhases) sum += seconds(phase)->value();
  return sum;
}

std::string WorkerMetrics::TakeSeconds(double seconds_computing) {
  told_.resize(seconds_.size());
  double synced = 0;
  std::string parts;
  for (const auto& [phase, name] : kSyncPhases) {
    const double now = seconds(phase)->value();
    const double took = now - std::exchange(told_[static_cast<size_t>(phase)], now);
    absl::StrAppendFormat(&parts, "%s%s %.2f", parts.empty() ? "" : ", ", name, took);
    synced += took;
  }
  const double computed = seconds_computing - std::exchange(told_computing_, seconds_computing);
  return absl::StrFormat("computed for %.2f s, synced for %.2f s: %s", computed, synced, parts);
}

void WorkerMetrics::RefreshPage() {
  metrics_.gauge("longwave_worker_coordinator_silence_seconds")
      .Set(absl::ToDoubleSeconds(host_->coordinator_silence()));
  metrics_.counter("longwave_worker_warnings_total").Show(host_->warnings());
  const int64_t checkpoint_at_ns = checkpoint_at_ns_.load(std::memory_order_relaxed);
  if (checkpoint_at_ns == 0) return;
  metrics_.gauge("longwave_worker_checkpoint_age_seconds")
      .Set(absl::ToDoubleSeconds(MonotonicNow() - absl::FromUnixNanos(checkpoint_at_ns)));
}

void WorkerMetrics::ContinueFrom(const WorkerState& state) {
  before_ = state;
  told_computing_ = state.seconds_computing;
}

void WorkerMetrics::Show(const WorkerState& state) {
  for (const WorkerPhase phase :
       {WorkerPhase::kStarting, WorkerPhase::kTraining, WorkerPhase::kSyncing,
        WorkerPhase::kValidating, WorkerPhase::kDone, WorkerPhase::kFailed,
        WorkerPhase::kJoining}) {
    metrics_.gauge("longwave_worker_state", {Name(phase)}).Set(state.phase == phase);
  }
  metrics_.gauge("longwave_worker_round").Set(state.round);
  metrics_.gauge("longwave_worker_train_loss").SetIfAny(state.train_loss);
  const double tokens = static_cast<double>(state.tokens - before_.tokens);
  metrics_.counter("longwave_worker_tokens_total").Show(tokens);
  metrics_.counter("longwave_worker_model_flops_total").Show(flops_per_token_ * tokens);
  const double seconds = state.seconds_computing + state.seconds_syncing;
  if (seconds > 0)
    metrics_.gauge("longwave_worker_compute_ratio").Set(state.seconds_computing / seconds);
  const auto show = [&](const char* name, const char* direction, uint64_t ByteCounts::*bytes) {
    metrics_.counter(name, {direction}).Show(state.bytes.*bytes - before_.bytes.*bytes);
  };
  show("longwave_worker_bytes_total", "pushed", &ByteCounts::pushed);
  show("longwave_worker_bytes_total", "pulled", &ByteCounts::pulled);
  show("longwave_worker_payload_bytes_total", "pushed", &ByteCounts::payload_pushed);
  show("longwave_worker_payload_bytes_total", "pulled", &ByteCounts::payload_pulled);
}

void WorkerMetrics::StepDone(absl::Duration took) {
  steps_.Add();
  ddp_bytes_.Add(kBytesOfAParameter * static_cast<double>(layout_->parameter_count()));
  step_seconds_.Observe(absl::ToDoubleSeconds(took));
}

void WorkerMetrics::RoundDone(uint32_t round, uint32_t newest_open) {
  rounds_.Add();
  diloco_bytes_.Add(kBytesOfAParameter * static_cast<double>(layout_->parameter_count()));
  metrics_.gauge("longwave_worker_rounds_behind")
      .Set(newest_open > round + 1 ? newest_open - round - 1 : 0);
}

void WorkerMetrics::ShowDevice(const KernelOps& ops) {
  if (!ops.on_device) return;
  const absl::StatusOr<MachineMemory> memory = ops.memory();
  if (!memory.ok()) return;
  figures_[kGpuFree] = static_cast<double>(memory->available_bytes);
  figures_[kGpuUsed] = static_cast<double>(memory->total_bytes - memory->available_bytes);
  if (ranks_ == 1) ShowFigures(figures_);
}

void WorkerMetrics::SyncBegins() {
  measures_ = measuring_ <= (MonotonicNow() - began_) * kMeasuringShare;
  sent_.reset();
}

void WorkerMetrics::OnPush(const SegmentPush& push, const EncodeReport& report) {
  Segment& segment = segments_[push.segment];
  segment.signal_square_sum = report.signal_square_sum;
  segment.momentum_square_sum = report.momentum_square_sum;
  segment.sent_square_sum = report.sent_square_sum;
  segment.payload_bytes = push.payload.size();
  if (measures_ && push.segment == sampled_) sent_ = push.payload;
}

void WorkerMetrics::ShowCore(const WorkerCore::Counts& counts) {
  metrics_.counter("longwave_worker_pushes_total", {"accepted"}).Show(counts.accepted);
  metrics_.counter("longwave_worker_pushes_total", {"late"}).Show(counts.late);
  metrics_.counter("longwave_worker_pushes_total", {"unknown"}).Show(counts.unknown);
  metrics_.counter("longwave_worker_catch_ups_total").Show(counts.catch_ups);
  metrics_.counter("longwave_worker_repairs_total").Show(counts.repairs);
  metrics_.counter("longwave_worker_snapshots_sent_total").Show(counts.snapshots_sent);
}

void WorkerMetrics::OnSettled(const Settled& settled) {
  if (measures_ && !settled.compacted) Measure(settled);
}

void WorkerMetrics::Measure(const Settled& settled) {
  const absl::Time began = MonotonicNow();
  if (const auto sum = SquareSumOf(*layout_, settled.segment, settled.merged))
    segments_[settled.segment].update_square_sum = *sum;
  has_updates_ = has_updates_ || settled.segment + 1 == segments_.size();
  if (settled.segment == sampled_ && sent_.has_value()) {
    const auto pair = ComparePayloads(*layout_, settled.segment, run_seed_, settled.round,
                                      sent_->bytes(), settled.merged.bytes());
    if (pair.ok()) metrics_.gauge("longwave_worker_update_cosine").Set(pair->cosine());
    sent_.reset();
  }
  measuring_ += MonotonicNow() - began;
}

void WorkerMetrics::SyncDone(absl::Duration blocked) {
  sync_seconds_.Observe(absl::ToDoubleSeconds(blocked));
  sent_.reset();
  if (measures_) sampled_ = (sampled_ + 1) % static_cast<uint32_t>(segments_.size());
  std::fill_n(figures_.begin(), kPayload + 1, 0);
  for (const Segment& segment : segments_) {
    figures_[kSignal] += segment.signal_square_sum;
    figures_[kMomentum] += segment.momentum_square_sum;
    figures_[kSent] += segment.sent_square_sum;
    figures_[kUpdate] += segment.update_square_sum;
    figures_[kPayload] += static_cast<double>(segment.payload_bytes);
  }
  has_synced_ = true;
  if (ranks_ == 1) ShowFigures(figures_);
}

void WorkerMetrics::ShowFigures(const std::vector<double>& figures) {
  if (figures[kGpuFree] + figures[kGpuUsed] > 0) {
    metrics_.gauge("longwave_worker_gpu_memory_bytes", {"free"}).Set(figures[kGpuFree]);
    metrics_.gauge("longwave_worker_gpu_memory_bytes", {"used"}).Set(figures[kGpuUsed]);
  }
  if (!has_synced_) return;
  metrics_.gauge("longwave_worker_signal_norm").Set(std::sqrt(figures[kSignal]));
  metrics_.gauge("longwave_worker_momentum_norm").Set(std::sqrt(figures[kMomentum]));
  metrics_.gauge("longwave_worker_sent_norm").Set(std::sqrt(figures[kSent]));
  if (has_updates_) metrics_.gauge("longwave_worker_update_norm").Set(std::sqrt(figures[kUpdate]));
  if (figures[kPayload] > 0) {
    metrics_.gauge("longwave_worker_compression_ratio")
        .Set(kBytesOfAParameter * static_cast<double>(layout_->parameter_count()) /
             figures[kPayload]);
  }
}

void WorkerMetrics::ShowCheckpoints(uint64_t written, uint64_t failed) {
  if (static_cast<double>(written) > metrics_.counter("longwave_worker_checkpoints_total").value())
    checkpoint_at_ns_.store(absl::ToUnixNanos(MonotonicNow()), std::memory_order_relaxed);
  metrics_.counter("longwave_worker_checkpoints_total").Show(written);
  metrics_.counter("longwave_worker_checkpoint_failures_total").Show(failed);
}

}  // namespace longwave
