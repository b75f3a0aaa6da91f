#include "server/service/shard_data_plane.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/figures.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace longwave {
namespace {

constexpr absl::Duration kWaitMax = absl::Hours(1);

}  // namespace

absl::Status ShardDataPlane::Serve() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || (core_ != nullptr && knows_members_); });
    if (stopping_) return absl::OkStatus();
    serving_ = true;
  }
  const absl::Status served = ServeFrames();
  Attend(/*ends=*/true);
  return served;
}

absl::Status ShardDataPlane::ServeFrames() {
  if (!Attend()) return absl::OkStatus();
  for (;;) {
    Settle();
    // Wake ends the wait early when a task is posted.
    const absl::Duration wait = std::min(core_->NextDue() - MonotonicNow(), kWaitMax);
    for (absl::Duration patience = std::max(wait, absl::ZeroDuration());;
         patience = absl::ZeroDuration()) {
      LONGWAVE_ASSIGN_OR_RETURN(const std::optional<PeerFrame> frame, router_->Receive(patience));
      if (attention_.load(std::memory_order_acquire) && !Attend()) return absl::OkStatus();
      if (!frame.has_value()) break;
      OnFrame(*frame);
      if (!core_->TakesMore()) break;
    }
  }
}

void ShardDataPlane::OnFrame(const PeerFrame& frame) {
  const ShardCore::Taken taken = core_->OnFrame(frame, MonotonicNow());
  if (metrics_ != nullptr && taken.is_strangers) metrics_->HeardStranger();
  if (metrics_ != nullptr && taken.is_of_shards) metrics_->DroppedWrongKind();
  SendDue();
}

void ShardDataPlane::Settle() {
  const std::vector<ShardEffect> effects = core_->Commit(MonotonicNow());
  SendDue();
  if (metrics_ != nullptr) std::ranges::for_each(effects, [&](const auto& e) { Count(e); });
  core_->Tend(MonotonicNow());
  LogNotices();
  if (metrics_ != nullptr) MeasureResidual();
}

void ShardDataPlane::SendDue() {
  core_->SendDue(MonotonicNow(), [&](const PeerId& peer, const SealedFrame& frame) {
    return router_->Send(peer, frame);
  });
}

void ShardDataPlane::Count(const ShardEffect& effect) {
  const absl::Time now = MonotonicNow();
  if (const auto* const merged = HeaderOf<MergedFrame>(effect)) {
    metrics_->Merged(*merged, now);
  } else if (const auto* const answer = HeaderOf<AnswerFrame>(effect)) {
    metrics_->Answered(*answer, std::get<SendFrame>(effect.what).rejection, now);
  } else if (const auto* const clipped = std::get_if<ContributionClipped>(&effect.what)) {
    if (clipped->left_out) metrics_->LeftOut();
  }
}

bool ShardDataPlane::Attend(bool ends) {
  std::vector<std::function<void()>> tasks;
  bool serves = false;
  {
    const std::lock_guard lock(mutex_);
    attention_.store(false, std::memory_order_relaxed);
    if (ends) stopping_ = true;
    serves = !stopping_;
    if (serves || ends) tasks = std::exchange(tasks_, {});
    if (ends) serving_ = false;
  }
  // Without the lock: a membership may merge rounds and write a state to a disk that hangs, while
  // other threads report that.
  for (const auto& task : tasks) task();
  return serves;
}

void ShardDataPlane::Post(std::function<void()> task) const {
  tasks_.push_back(std::move(task));
  attention_.store(true, std::memory_order_release);
  changed_.notify_all();
  router_->Wake();
}

template <typename T>
T ShardDataPlane::Ask(Asked<T>& asked, T (ShardDataPlane::*make)() const) const {
  std::unique_lock lock(mutex_);
  if (!serving_) {
    asked.newest = (this->*make)();
  } else if (!std::exchange(asked.is_due, true)) {
    asked.since = MonotonicNow();
    Post([this, &asked, make] {
      T made = (this->*make)();
      const std::lock_guard done(mutex_);
      asked.newest = std::move(made);
      asked.is_due = false;
      changed_.notify_all();
    });
  }
  changed_.wait_for(lock, absl::ToChronoNanoseconds(ask_patience_), [&] { return !asked.is_due; });
  return asked.newest;
}

void ShardDataPlane::Begin(uint64_t run, uint64_t incarnation,
                           std::unique_ptr<DurableShard> shard) {
  const std::lock_guard lock(mutex_);
  if (metrics_ != nullptr) metrics_->SetSegments(shard->first_segment(), shard->segment_count());
  core_ = std::make_unique<ShardCore>(run, incarnation, std::move(shard), router_->encryption());
  LogNotices();
  changed_.notify_all();
}

void ShardDataPlane::SetMembership(Membership membership) {
  // Workers connect as soon as the coordinator hears that this shard knows them, so the keys are
  // set at once.
  std::vector<AdmittedKeys::Member> keys;
  for (const Member& member : membership.members) {
    if (!member.data_key.empty()) keys.push_back({member.worker, member.data_key});
  }
  router_->SetAdmitted(keys);
  const std::lock_guard lock(mutex_);
  knows_members_ = true;
  Post([this, membership = std::move(membership)] {
    if (!stopping_) core_->SetMembership(membership, MonotonicNow());
  });
}

void ShardDataPlane::SetHashChecks(std::vector<HashCheck> hash_checks) {
  const std::lock_guard lock(mutex_);
  Post([this, hash_checks = std::move(hash_checks)] {
    if (!stopping_) core_->SetHashChecks(hash_checks, MonotonicNow());
  });
}

void ShardDataPlane::HoldBack(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (reason == held_back_) return;
  held_back_ = reason;
  Log(LogLevel::kWarning, reason.empty() ? "takes pushes again" : reason);
  Post([this, reason] {
    if (core_ != nullptr) core_->HoldBack(reason);
  });
}

void ShardDataPlane::Stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  Post([] {});
}

ShardHeartbeat ShardDataPlane::Report(uint32_t known_epoch) const {
  ShardHeartbeat report = Ask(report_, &ShardDataPlane::NewReport);
  if (report.known_epoch != kEpochUntold) report.known_epoch = known_epoch;
  const std::lock_guard lock(mutex_);
  if (const absl::Duration busy = MonotonicNow() - report_.since;
      report_.is_due && busy > kBusyMax) {
    report.trouble =
        absl::StrCat("has taken no frame for ", FormatSeconds(busy), "; does its disk answer?");
  }
  return report;
}

ShardHeartbeat ShardDataPlane::NewReport() const {
  ShardHeartbeat report;
  if (core_ != nullptr) report = core_->Report(/*known_epoch=*/0, MonotonicNow());
  report.state.bytes_received = router_->counts().received;
  report.state.bytes_sent = router_->counts().sent;
  return report;
}

ShardReport ShardDataPlane::status() const { return Ask(status_, &ShardDataPlane::NewStatus); }

ShardReport ShardDataPlane::NewStatus() const {
  ShardReport status{.state = NewReport().state};
  status.traffic = {router_->counts().sent_by_kind, router_->counts().received_by_kind};
  if (core_ == nullptr) return status;
  status.segments = core_->shard().OpenSegments();
  status.workers = core_->links();
  return status;
}

ShardFigures ShardDataPlane::figures() const { return Ask(figures_, &ShardDataPlane::NewFigures); }

ShardFigures ShardDataPlane::NewFigures() const {
  ShardFigures figures;
  figures.traffic = {router_->counts().sent_by_kind, router_->counts().received_by_kind};
  figures.frames_refused = router_->counts().frames_refused;
  if (core_ == nullptr) return figures;
  figures.last_frame = core_->last_frame();
  figures.frames_unsent = core_->unsent_count();
  figures.epoch = core_->membership().epoch;
  for (const WorkerLinkReport& links : core_->links()) {
    ++figures.members;
    figures.connections += links.connections;
    figures.frames_queued += links.frames_waiting;
    figures.bytes_queued += links.bytes_waiting;
  }
  const DurableShard& shard = core_->shard();
  figures.state = shard.state();
  figures.troubled = !shard.trouble().empty();
  figures.restoring = shard.restoring_count();
  figures.segments = shard.segment_count();
  figures.states_written = shard.snapshots_written().states;
  figures.models_written = shard.snapshots_written().models;
  if (shard.aggregator() != nullptr) figures.open = shard.aggregator()->open_figures();
  return figures;
}

void ShardDataPlane::MeasureResidual() {
  const absl::Time begin = MonotonicNow();
  const Aggregator* const aggregator = core_->shard().aggregator();
  if (!metrics_->WantsResidual(begin) || aggregator == nullptr) return;
  const double sum = aggregator->ResidualSquareSum(metrics_->residual_segment());
  metrics_->ObserveResidual(sum, begin, MonotonicNow());
}

void ShardDataPlane::LogNotices() {
  for (const std::string& notice : core_->TakeNotices()) Log(LogLevel::kWarning, notice);
}

}  // namespace longwave
