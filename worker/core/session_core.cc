#include "worker/core/session_core.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

// Limits of one heartbeat, so that a coordinator can take in the reports of a long outage: reports,
// and the hashes in them.
constexpr size_t kReportsMax = 1024;
constexpr size_t kHashesMax = 1 << 20;
constexpr size_t kWarningsMax = 64;
constexpr size_t kWarningBytesMax = 1024;

}  // namespace

SessionCore::Call SessionCore::TakeDue(absl::Time now) {
  switch (schedule_.TakeDue(now)) {
    case HeartbeatSchedule::Call::kNone:
      return std::monostate();
    case HeartbeatSchedule::Call::kRegister:
      return registration_;
    case HeartbeatSchedule::Call::kHeartbeat:
      return NextHeartbeat();
  }
  return std::monostate();
}

WorkerHeartbeat SessionCore::NextHeartbeat() {
  size_t hashes = 0;
  for (under_way_ = 0; under_way_ < std::min(unanswered_.size(), kReportsMax); ++under_way_) {
    hashes += unanswered_[under_way_].segment_hashes.size();
    if (hashes > kHashesMax && under_way_ > 0) break;
  }
  const auto end = unanswered_.begin() + static_cast<std::ptrdiff_t>(under_way_);
  // The final report follows all rounds.
  const bool is_whole = end == unanswered_.end();
  sent_wish_ = is_whole || !final_.has_value() ? wish_ : 0;
  const auto first_warning = warnings_.begin() + static_cast<std::ptrdiff_t>(warnings_answered_);
  warnings_told_ = warnings_.size();
  return {.worker = worker_,
          .incarnation = registration_.incarnation,
          .state = state_,
          .rounds = {unanswered_.begin(), end},
          .known_epoch = membership_.epoch,
          .failure = failure_,
          .final = is_whole ? final_ : std::nullopt,
          .ready_round =
              ready_round_ == kRoundNever ? std::nullopt : std::optional<uint32_t>(ready_round_),
          .leaving = leaving_,
          .warnings = {first_warning, warnings_.end()},
          .known_rounds = rounds_.has_value() ? rounds_->decided_rounds() : 0,
          .known_steps = rounds_.has_value() ? rounds_->FirstStep(rounds_->decided_rounds()) : 0};
}

HeartbeatSchedule::End SessionCore::OnCallEnded(const absl::Status& status, absl::Time now) {
  const bool was_registered = schedule_.is_registered();
  const bool was_reachable = schedule_.is_reachable();
  const HeartbeatSchedule::End end =
      schedule_.Ended(status, membership_.epoch != 0, TakesPart(), now);
  if (!status.ok()) last_failure_ = status;
  const std::string reason(status.message());
  if (schedule_.is_reachable() && !was_reachable)
    notices_.push_back({false, "the coordinator answers again"});
  if (end == HeartbeatSchedule::End::kSilent && was_reachable) {
    notices_.push_back(
        {true, absl::StrCat(
                   absl::IsUnauthenticated(status) ? "" : "the coordinator does not answer: ",
                   reason, has_registered_ ? "; the data plane goes on" : "", "; trying again")});
  } else if (end == HeartbeatSchedule::End::kLostPlace) {
    notices_.push_back(
        {true,
         absl::StrCat("has lost its place before the run began, and registers again: ", reason)});
  } else if (end == HeartbeatSchedule::End::kRefused && !ended_.has_value()) {
    // The coordinator does not know this worker, or does not accept such workers.
    const char* const call = was_registered ? " a heartbeat" : " a registration";
    ended_ = absl::Status(
        has_registered_ ? absl::StatusCode::kAborted : status.code(),
        absl::StrCat("the coordinator refused", has_registered_ ? call : "", ": ", reason));
  }
  return end;
}

void SessionCore::OnRegistered(const absl::StatusOr<uint32_t>& worker, absl::Time now) {
  OnCallEnded(worker.status(), now);
  if (!worker.ok()) return;
  worker_ = *worker;
  has_registered_ = true;
}

void SessionCore::OnHeartbeatReply(absl::StatusOr<WorkerHeartbeatReply> answer, absl::Time now) {
  if (answer.ok()) {
    // Calls during a heartbeat only append reports.
    unanswered_.erase(unanswered_.begin(),
                      unanswered_.begin() + static_cast<std::ptrdiff_t>(under_way_));
    warnings_answered_ = warnings_told_;
    told_ |= wish_ != 0 && sent_wish_ == wish_;
    run_ = answer->run;
    validates_ = answer->validates;
    repair_ = std::move(answer->repair);
    sealing_round_ = answer->sealing_round;
    sealed_ = answer->sealed;
    if (answer->intervals.has_value()) TakeIntervals(*answer->intervals);
    if (answer->membership.has_value()) {
      membership_ = *std::move(answer->membership);
      shards_ = std::move(answer->shards);
      ++endpoints_version_;
    }
    if (answer->instruction == Instruction::kStop && !ended_.has_value()) {
      const bool as_asked =
          answer->phase == RunPhase::kFinished || answer->phase == RunPhase::kStopped;
      ended_ = as_asked ? absl::OkStatus() : Aborted(answer->reason);
    }
    if (!unanswered_.empty() || has_unanswered_warnings()) schedule_.Urge();
  }
  OnCallEnded(answer.status(), now);
}

void SessionCore::TakeIntervals(const Intervals& part) {
  const absl::Status taken =
      rounds_.has_value() ? rounds_->Extend(part) : InvalidArgument("decided rounds, wanted none");
  if (!taken.ok() && !ended_.has_value())
    ended_ = Aborted("the coordinator's answer: ", taken.message());
}

void SessionCore::Report(RoundReport report) {
  unanswered_.push_back(std::move(report));
  sealed_ = false;  // true of the replica before
  // An answer that is under way is of the report that this one takes back.
  if (std::exchange(final_, std::nullopt).has_value()) {
    told_ = false;
    sent_wish_ = 0;
  }
  schedule_.Urge();
}

void SessionCore::SetReadyRound(uint32_t round) {
  if (std::exchange(ready_round_, round) == round) return;
  // The coordinator needs this round to choose the first round of a waiting member.
  if (!TakesPart()) schedule_.Urge();
  // The worker waits for the round's inner steps.
  if (rounds_.has_value() && round != kRoundNever && round >= rounds_->decided_rounds())
    schedule_.Urge();
}

void SessionCore::Finish(const FinalReport& report) {
  final_ = report;
  ReportAtOnce();
}

void SessionCore::Fail(const std::string& reason) {
  failure_ = reason;
  final_.reset();  // a failed worker has not finished
  state_.phase = WorkerPhase::kFailed;
  ReportAtOnce();
}

void SessionCore::Leave() {
  leaving_ = true;
  ReportAtOnce();
}

void SessionCore::Warn(const std::string& text) {
  std::string clipped = Utf8Prefix(text, kWarningBytesMax);
  if (warnings_.size() >= kWarningsMax || std::ranges::find(warnings_, clipped) != warnings_.end())
    return;
  warnings_.push_back(std::move(clipped));
  schedule_.Urge();
}

void SessionCore::ReportAtOnce() {
  ++wish_;
  told_ = false;
  schedule_.Urge();
}

const Member* SessionCore::Self() const {
  const auto self = std::ranges::find(membership_.members, worker_, &Member::worker);
  return self == membership_.members.end() ? nullptr : &*self;
}

bool SessionCore::TakesPart() const {
  const Member* const self = Self();
  return self != nullptr && self->first_round != kRoundNever;
}

Directive SessionCore::directive() const {
  const Member* const self = Self();
  // The requested report may be on its way.
  const bool seals = std::ranges::any_of(
      unanswered_, [this](const RoundReport& report) { return report.round >= sealing_round_; });
  return {.epoch = membership_.epoch,
          .first_round = self == nullptr ? kRoundNever : self->first_round,
          .other_start = self != nullptr && self->other_start,
          .validates = validates_,
          .repair = repair_,
          .sealing_round = seals ? 0 : sealing_round_,
          .sealed = sealed_ && unanswered_.empty(),
          .final_answered = final_.has_value() && told_,
          .intervals = rounds_.has_value() ? rounds_->From(0) : Intervals()};
}

bool SessionCore::KnowsRun(uint32_t shard_count) const {
  return Self() != nullptr && shards_.size() == shard_count;
}

absl::StatusOr<std::vector<std::string>> SessionCore::Endpoints(uint32_t shard_count) const {
  std::vector<std::string> endpoints(shard_count);
  for (const ShardAddress& shard : shards_) {
    if (shard.shard >= shard_count) {
      return InvalidArgument("got the address of shard ", shard.shard, ", wanted shards 0 to ",
                             shard_count - 1);
    }
    endpoints[shard.shard] = shard.data_endpoint;
  }
  return endpoints;
}

}  // namespace longwave
