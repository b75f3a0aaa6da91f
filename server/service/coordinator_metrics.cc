#include "server/service/coordinator_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace longwave {
namespace {

constexpr double kBytesOfAParameter = 4;

// The label `reason` of a refused call, the code's name; empty if the code is no refusal.
std::string ReasonOf(absl::StatusCode code) {
  using enum absl::StatusCode;
  constexpr absl::StatusCode kRefusals[] = {
      kInvalidArgument, kAlreadyExists, kFailedPrecondition, kUnavailable, kResourceExhausted,
      kNotFound,        kAborted};
  const bool is_refusal = std::ranges::find(kRefusals, code) != std::end(kRefusals);
  return is_refusal ? absl::AsciiStrToLower(absl::StatusCodeToString(code)) : "";
}

bool IsActive(const MemberStatus& member) {
  return !HasLeft(member.state.phase) && member.state.phase != WorkerPhase::kJoining &&
         member.member.first_round != kRoundNever;
}

}  // namespace

void WorkerPace::Observe(const WorkerState& state, absl::Time now) {
  if (state.phase == WorkerPhase::kStarting) return;
  const bool is_new = state.step < at_since_.step || state.tokens < at_since_.tokens ||
                      state.seconds_computing < at_since_.seconds_computing ||
                      state.seconds_syncing < at_since_.seconds_syncing;
  const absl::Duration window = now - since_;
  if (since_ == absl::InfinitePast() || is_new) {
    figures_.reset();
  } else {
    if (window < (figures_.has_value() ? kWindow : kFirstWindow)) return;
    if (state.step == at_since_.step) return;
    const double computing = state.seconds_computing - at_since_.seconds_computing;
    const double syncing = state.seconds_syncing - at_since_.seconds_syncing;
    figures_ =
        Figures{.step_seconds = computing / static_cast<double>(state.step - at_since_.step),
                .tokens_per_second = static_cast<double>(state.tokens - at_since_.tokens) /
                                     absl::ToDoubleSeconds(window),
                .compute_ratio = computing + syncing > 0 ? computing / (computing + syncing) : 0};
  }
  since_ = now;
  at_since_ = state;
}

CoordinatorMetrics::CoordinatorMetrics(Metrics* metrics, uint64_t rounds,
                                       bool promises_equal_replicas)
    : metrics_(metrics),
      promises_equal_replicas_(promises_equal_replicas),
      heartbeat_ages_(*metrics, "longwave_coordinator_heartbeat_age_seconds"),
      shard_heartbeat_ages_(*metrics, "longwave_coordinator_shard_heartbeat_age_seconds"),
      rounds_behind_(*metrics, "longwave_coordinator_worker_rounds_behind"),
      step_seconds_(*metrics, "longwave_coordinator_worker_step_seconds"),
      tokens_per_second_(*metrics, "longwave_coordinator_worker_tokens_per_second"),
      compute_ratios_(*metrics, "longwave_coordinator_worker_compute_ratio"),
      train_losses_(*metrics, "longwave_coordinator_worker_train_loss") {
  metrics->gauge("longwave_coordinator_rounds_planned").Set(rounds);
}

void CoordinatorMetrics::SetRun(uint64_t run) {
  metrics_->SetLabelIfNone("run", absl::StrFormat("%016x", run));
}

void CoordinatorMetrics::Know(const RunStatus& status) {
  known_records_ = status.record_count;
  ObserveRecords(status);
  for (const MemberStatus& member : status.members)
    workers_[member.member.worker].is_member = !HasLeft(member.state.phase);
  for (const ShardStatus& shard : status.shards) shards_.try_emplace(shard.shard.shard);
}

void CoordinatorMetrics::Registered(const RegisterWorker& request, uint32_t worker) {
  const auto [place, is_new] = workers_.try_emplace(worker);
  Known& known = place->second;
  // A process registers again after a lost answer or a heartbeat timeout.
  if (known.incarnation != request.incarnation) {
    if (!is_new) Depart(worker, "replaced");
    known = {.is_member = known.is_member, .incarnation = request.incarnation};
  }
  if (!std::exchange(known.is_member, true))
    metrics_->counter("longwave_coordinator_joins_total", {is_new ? "new" : "returned"}).Add();
}

void CoordinatorMetrics::Registered(const RegisterShard& request) {
  const auto [place, is_new] = shards_.try_emplace(request.shard, request.incarnation);
  // A process registers again after a lost answer.
  if (!is_new && std::exchange(place->second, request.incarnation) != request.incarnation)
    metrics_->counter("longwave_coordinator_shard_restarts_total").Add();
}

void CoordinatorMetrics::Heard(const WorkerHeartbeat& heartbeat, absl::Time now) {
  metrics_->counter("longwave_coordinator_heartbeats_total", {"worker"}).Add();
  // Once the run is over, heartbeats of unknown workers are answered too.
  const auto known = workers_.find(heartbeat.worker);
  if (known == workers_.end()) return;
  known->second.pace.Observe(heartbeat.state, now);
  CountLosses(heartbeat, known->second);
  if (!heartbeat.failure.empty()) Depart(heartbeat.worker, "failed");
  if (heartbeat.leaving) Depart(heartbeat.worker, "left");
}

void CoordinatorMetrics::CountLosses(const WorkerHeartbeat& heartbeat, Known& known) {
  const auto is_bad = [](std::optional<double> loss) { return loss && !std::isfinite(*loss); };
  bool training = is_bad(heartbeat.state.train_loss);
  bool validation = heartbeat.final && is_bad(heartbeat.final->validation_loss);
  for (const RoundReport& report : heartbeat.rounds) {
    training |= is_bad(report.train_loss);
    validation |= is_bad(report.validation_loss);
  }
  if (training && !std::exchange(known.training_diverged, true))
    metrics_->counter("longwave_coordinator_losses_not_finite_total", {"training"}).Add();
  if (validation && !std::exchange(known.validation_diverged, true))
    metrics_->counter("longwave_coordinator_losses_not_finite_total", {"validation"}).Add();
}

void CoordinatorMetrics::Heard(const ShardHeartbeat&) {
  metrics_->counter("longwave_coordinator_heartbeats_total", {"shard"}).Add();
}

void CoordinatorMetrics::Refused(const absl::Status& status) {
  const std::string reason = ReasonOf(status.code());
  if (!reason.empty())
    metrics_->counter("longwave_coordinator_calls_refused_total", {reason}).Add();
}

void CoordinatorMetrics::Expelled(uint32_t worker) { Depart(worker, "expelled"); }

void CoordinatorMetrics::Depart(uint32_t worker, std::string_view reason) {
  const auto known = workers_.find(worker);
  if (known == workers_.end() || !std::exchange(known->second.is_member, false)) return;
  metrics_->counter("longwave_coordinator_departures_total", {reason}).Add();
}

void CoordinatorMetrics::Saved(absl::Duration took, bool ok) {
  metrics_->histogram("longwave_coordinator_save_seconds").Observe(absl::ToDoubleSeconds(took));
  if (!ok) metrics_->counter("longwave_coordinator_save_failures_total").Add();
}

void CoordinatorMetrics::Observe(const RunStatus& status) {
  ObserveRecords(status);
  ObserveMembers(status);
}

void CoordinatorMetrics::ObserveRecords(const RunStatus& status) {
  for (const RoundRecord& record : status.records) {
    const uint64_t steps = record.step - std::min(record.step, steps_done_);
    steps_done_ += steps;
    member_steps_ += steps * record.members;
    member_rounds_ += record.members;
    if (next_record_++ >= known_records_)
      metrics_->histogram("longwave_coordinator_round_seconds")
          .Observe(record.seconds - last_record_.seconds);
    last_record_ = record;
  }
}

void CoordinatorMetrics::ObserveMembers(const RunStatus& status) {
  for (const MemberStatus& member : status.members) {
    const auto known = workers_.find(member.member.worker);
    if (known == workers_.end()) continue;
    if (member.state.phase == WorkerPhase::kLost) {
      Depart(member.member.worker, "silent");
    } else if (!known->second.is_member && member.state.phase == WorkerPhase::kJoining) {
      // After a mere heartbeat timeout a worker needs no registration.
      known->second.is_member = true;
      metrics_->counter("longwave_coordinator_joins_total", {"returned"}).Add();
    }
  }
}

void CoordinatorMetrics::Refresh(const RunStatus& status, const Refusals& refusals) {
  Observe(status);
  if (status.interval.has_value()) {
    const IntervalStatus& interval = *status.interval;
    metrics_->gauge("longwave_coordinator_rounds_planned")
        .Set(static_cast<double>(interval.rounds));
    metrics_->gauge("longwave_coordinator_inner_steps").Set(interval.inner_steps);
    metrics_->counter("longwave_coordinator_interval_changes_total").Show(interval.changes);
    metrics_->gauge("longwave_coordinator_sync_cost_ratio").SetIfAny(interval.lost_share);
  }
  for (const Refusal refusal : kPeerRefusals) {
    metrics_->counter("longwave_coordinator_peers_refused_total", {Name(refusal)})
        .Show(refusals.of(refusal));
  }
  metrics_->counter("longwave_coordinator_tokens_refused_total").Show(refusals.of(Refusal::kToken));
  ShowRun(status);
  ShowMembers(status);
  ShowShards(status);
}

void CoordinatorMetrics::ShowRun(const RunStatus& status) {
  const auto set = [this](std::string_view name, auto value) { metrics_->gauge(name).Set(value); };
  const auto show = [this](std::string_view name, auto total) {
    metrics_->counter(name).Show(total);
  };
  for (const RunPhase phase : {RunPhase::kWaiting, RunPhase::kTraining, RunPhase::kFinished,
                               RunPhase::kFailed, RunPhase::kStopped}) {
    metrics_->gauge("longwave_coordinator_phase", {Name(phase)}).Set(status.phase == phase);
  }
  set("longwave_coordinator_waiting", !status.trouble.empty());
  set("longwave_coordinator_epoch", status.epoch);
  const double parameters = static_cast<double>(status.parameters);
  set("longwave_coordinator_parameters", parameters);
  set("longwave_coordinator_replicas_unequal", !status.replicas_equal && promises_equal_replicas_);
  set("longwave_coordinator_members_wanted", status.workers_wanted);
  set("longwave_coordinator_shards_wanted", status.shards_wanted);
  show("longwave_coordinator_training_seconds_total", status.seconds);
  show("longwave_coordinator_repairs_total", status.repairs);
  const auto of_run = std::ranges::count(status.warnings, "", &Warning::worker);
  metrics_->counter("longwave_coordinator_warnings_total", {"run"}).Show(of_run);
  metrics_->counter("longwave_coordinator_warnings_total", {"worker"})
      .Show(static_cast<std::ptrdiff_t>(status.warnings.size()) - of_run);
  const bool is_training = status.phase == RunPhase::kTraining;
  set("longwave_coordinator_progress_age_seconds",
      is_training ? std::max(0.0, status.seconds - last_record_.seconds) : 0);
  metrics_->gauge("longwave_coordinator_validation_loss").SetIfAny(status.validation_loss);

  show("longwave_coordinator_rounds_finished_total", next_record_);
  show("longwave_coordinator_steps_total", steps_done_);
  const double model_bytes = kBytesOfAParameter * parameters;
  show("longwave_coordinator_ddp_bytes_total", model_bytes * static_cast<double>(member_steps_));
  show("longwave_coordinator_diloco_bytes_total",
       model_bytes * static_cast<double>(member_rounds_));
  set("longwave_coordinator_round", next_record_ == 0 ? 0 : last_record_.round + 1.0);
  if (next_record_ == 0) return;
  metrics_->gauge("longwave_coordinator_train_loss").SetIfAny(last_record_.train_loss);
  set("longwave_coordinator_tokens_per_second", last_record_.tokens_per_second);
  set("longwave_coordinator_compute_ratio", last_record_.compute_share);
}

void CoordinatorMetrics::ShowMembers(const RunStatus& status) {
  std::array<double, 16> by_phase = {};
  uint64_t tokens = 0;
  ByteCounts bytes;
  double active = 0, ranks = 0, stragglers = 0;
  uint32_t foremost = 0;
  for (const MemberStatus& member : status.members) {
    by_phase[static_cast<size_t>(member.state.phase)] += 1;
    tokens += member.state.tokens;
    bytes = bytes + member.state.bytes;
    if (IsActive(member)) foremost = std::max(foremost, member.state.round);
  }
  std::vector<double> ages, behind, step_seconds, rates, ratios, losses;
  for (const MemberStatus& member : status.members) {
    if (!HasLeft(member.state.phase)) ages.push_back(member.heartbeat_age_s);
    if (!IsActive(member)) continue;
    active += 1;
    ranks += std::max(1u, member.state.ranks);
    const uint32_t rounds = foremost - member.state.round;
    stragglers += rounds > 1;
    behind.push_back(rounds);
    if (member.state.train_loss && std::isfinite(*member.state.train_loss))
      losses.push_back(*member.state.train_loss);
    const auto known = workers_.find(member.member.worker);
    if (known == workers_.end() || !known->second.pace.figures().has_value()) continue;
    const WorkerPace::Figures& figures = *known->second.pace.figures();
    step_seconds.push_back(figures.step_seconds);
    rates.push_back(figures.tokens_per_second);
    ratios.push_back(figures.compute_ratio);
  }
  for (const WorkerPhase phase :
       {WorkerPhase::kStarting, WorkerPhase::kTraining, WorkerPhase::kSyncing,
        WorkerPhase::kValidating, WorkerPhase::kDone, WorkerPhase::kFailed, WorkerPhase::kLost,
        WorkerPhase::kJoining, WorkerPhase::kExpelled}) {
    metrics_->gauge("longwave_coordinator_members", {Name(phase)})
        .Set(by_phase[static_cast<size_t>(phase)]);
  }
  metrics_->gauge("longwave_coordinator_members_active").Set(active);
  metrics_->gauge("longwave_coordinator_ranks").Set(ranks);
  metrics_->gauge("longwave_coordinator_stragglers").Set(stragglers);
  metrics_->counter("longwave_coordinator_tokens_total").Show(tokens);
  metrics_->counter("longwave_coordinator_bytes_total", {"pushed"}).Show(bytes.pushed);
  metrics_->counter("longwave_coordinator_bytes_total", {"pulled"}).Show(bytes.pulled);
  metrics_->counter("longwave_coordinator_payload_bytes_total", {"pushed"})
      .Show(bytes.payload_pushed);
  metrics_->counter("longwave_coordinator_payload_bytes_total", {"pulled"})
      .Show(bytes.payload_pulled);
  heartbeat_ages_.Set(std::move(ages));
  rounds_behind_.Set(std::move(behind));
  step_seconds_.Set(std::move(step_seconds));
  tokens_per_second_.Set(std::move(rates));
  compute_ratios_.Set(std::move(ratios));
  train_losses_.Set(std::move(losses));
}

void CoordinatorMetrics::ShowShards(const RunStatus& status) {
  double up = 0, troubled = 0, silent = 0;
  std::vector<double> ages;
  for (const ShardStatus& shard : status.shards) {
    (shard.silent ? silent : shard.trouble.empty() ? up : troubled) += 1;
    ages.push_back(shard.heartbeat_age_s);
  }
  metrics_->gauge("longwave_coordinator_shards", {"up"}).Set(up);
  metrics_->gauge("longwave_coordinator_shards", {"troubled"}).Set(troubled);
  metrics_->gauge("longwave_coordinator_shards", {"silent"}).Set(silent);
  shard_heartbeat_ages_.Set(std::move(ages));
}

}  // namespace longwave
