#include "worker/member/session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/random_word.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace longwave {
namespace {

// Of one heartbeat, so that a coordinator that was long away takes in what has come together:
// reports, and the hashes in them.
constexpr std::ptrdiff_t kReportsMax = 1024;
constexpr size_t kHashesMax = 1 << 20;
// How often a wait looks at the stop signal, which a signal handler's thread may set at any time.
constexpr std::chrono::milliseconds kPatience(50);
// Until it takes part in the run a worker asks more often than it reports later, so that all start
// together.
constexpr absl::Duration kStartInterval = absl::Milliseconds(100);
constexpr absl::Duration kBackoffMax = absl::Seconds(2);
constexpr absl::Duration kFailurePatience = absl::Seconds(3);
// Who was told to end has little time for it.
constexpr absl::Duration kLeavePatience = absl::Milliseconds(500);
// After a final report that was answered, a coordinator that is silent for this long has gone home.
constexpr absl::Duration kFarewellPatience = absl::Seconds(3);

// last: of the last call.
absl::Status SilentFor(const SessionOptions& options, const char* wanted,
                       const absl::Status& last) {
  const bool answers = absl::IsUnauthenticated(last);
  return absl::UnavailableError(absl::StrCat(
      "the coordinator at ", options.coordinator,
      answers ? " did not accept this worker's certificate for " : " did not answer for ",
      absl::FormatDuration(options.start_timeout), " (cluster.start_timeout_s); wanted ", wanted,
      answers ? "; " : "", answers ? last.message() : ""));
}

// Waits for `duration` or until `stop`; without a lock of anyone's.
void Pause(absl::Duration duration, const StopSignal& stop) {
  const absl::Time end = MonotonicNow() + duration;
  while (!stop.requested() && MonotonicNow() < end) {
    absl::SleepFor(std::min(absl::FromChrono(kPatience), end - MonotonicNow()));
  }
}

}  // namespace

absl::Duration NextBackoff(absl::Duration backoff, absl::Duration interval) {
  return std::clamp(backoff * 2, std::min(interval, kBackoffMax), kBackoffMax);
}

absl::Status Session::Ending::ToStatus() const {
  const bool as_asked = phase == RunPhase::kFinished || phase == RunPhase::kStopped;
  return as_asked ? absl::OkStatus() : absl::AbortedError(reason);
}

absl::StatusOr<std::unique_ptr<Session>> Session::Join(CoordinatorClient* client,
                                                       SessionOptions options, StopSignal* stop) {
  const uint64_t incarnation = RandomWord();
  const RegisterWorker request{.name = options.name,
                               .identity = options.identity != 0 ? options.identity : incarnation,
                               .manifest = options.manifest,
                               .layout_hash = options.layout_hash,
                               .incarnation = incarnation,
                               .settings = options.settings,
                               .process = options.process,
                               .data_key = options.data_key,
                               .start_hashes = options.start_hashes};
  const absl::Time give_up = MonotonicNow() + options.start_timeout;
  absl::Duration backoff = absl::Milliseconds(50);
  bool said = false;
  while (true) {
    if (stop->requested()) return absl::CancelledError("asked to stop before registration");
    const absl::StatusOr<uint32_t> worker = client->Register(request);
    if (worker.ok()) {
      return std::unique_ptr<Session>(
          new Session(client, std::move(options), request, stop, *worker));
    }
    if (!MayPass(worker.status())) {
      return absl::Status(worker.status().code(),
                          absl::StrCat("the coordinator refused: ", worker.status().message()));
    }
    const absl::Duration left = give_up - MonotonicNow();
    if (left <= absl::ZeroDuration()) return SilentFor(options, "a registration", worker.status());
    if (absl::IsUnauthenticated(worker.status()) && !std::exchange(said, true))
      Log(LogLevel::kWarning, absl::StrCat(worker.status().message(), "; trying again"));
    Pause(std::min(backoff, left), *stop);
    backoff = std::min(backoff * 2, kBackoffMax);
  }
}

Session::Session(CoordinatorClient* client, SessionOptions options, RegisterWorker registration,
                 StopSignal* stop, uint32_t worker)
    : client_(client),
      options_(std::move(options)),
      registration_(std::move(registration)),
      stop_(stop),
      worker_(worker),
      last_answer_(MonotonicNow()),
      thread_([this] { BeatUntilClosed(); }) {}

Session::~Session() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Session::BeatUntilClosed() {
  absl::Duration backoff = absl::ZeroDuration();
  std::unique_lock lock(mutex_);
  while (!closing_) {
    urgent_ = false;
    absl::Duration pause;
    if (const absl::Status answered = Call(lock); answered.ok()) {
      backoff = absl::ZeroDuration();
      pause = TakesPart() ? options_.heartbeat_interval
                          : std::min(kStartInterval, options_.heartbeat_interval);
    } else {
      TakeFailure(answered);
      // What is urgent stays so, but a coordinator that is away is not asked in a tight loop.
      urgent_ = false;
      backoff = NextBackoff(backoff, options_.heartbeat_interval);
      pause = backoff;
    }
    changed_.notify_all();
    wake_.wait_for(lock, absl::ToChronoMilliseconds(pause), [this] { return urgent_ || closing_; });
  }
}

absl::Status Session::Call(std::unique_lock<std::mutex>& lock) {
  if (!has_place_) {
    lock.unlock();
    const absl::StatusOr<uint32_t> worker = client_->Register(registration_);
    lock.lock();
    if (!worker.ok()) return worker.status();
    worker_ = *worker;
    has_place_ = true;
    NoteAnswer();
    return absl::OkStatus();
  }
  const WorkerHeartbeat heartbeat = NextHeartbeat();
  lock.unlock();
  absl::StatusOr<WorkerHeartbeatReply> answer = client_->Heartbeat(heartbeat);
  lock.lock();
  if (answer.ok()) TakeAnswer(heartbeat, *std::move(answer));
  return answer.status();
}

WorkerHeartbeat Session::NextHeartbeat() {
  sent_wish_ = wish_;
  size_t hashes = 0;
  auto end = unanswered_.begin();
  for (; end != unanswered_.end() && end - unanswered_.begin() < kReportsMax; ++end) {
    hashes += end->segment_hashes.size();
    if (hashes > kHashesMax && end != unanswered_.begin()) break;
  }
  return {.worker = worker_,
          .incarnation = registration_.incarnation,
          .state = state_,
          .rounds = {unanswered_.begin(), end},
          .known_epoch = membership_.epoch,
          .failure = failure_,
          .final = end == unanswered_.end() ? final_ : std::nullopt,
          .ready_round = ready_round_,
          .leaving = leaving_};
}

void Session::NoteAnswer() {
  if (!reachable_) Log(LogLevel::kInfo, "the coordinator answers again");
  reachable_ = true;
  last_answer_ = MonotonicNow();
}

void Session::TakeAnswer(const WorkerHeartbeat& sent, WorkerHeartbeatReply answer) {
  NoteAnswer();
  // Reports are only ever added at the end while a heartbeat is under way.
  unanswered_.erase(unanswered_.begin(),
                    unanswered_.begin() + static_cast<std::ptrdiff_t>(sent.rounds.size()));
  if (!unanswered_.empty()) urgent_ = true;
  const bool tells = sent.final.has_value() || !sent.failure.empty() || sent.leaving;
  if (tells && sent_wish_ == wish_) told_ = true;
  run_ = answer.run;
  validates_ = answer.validates;
  if (answer.membership.has_value()) {
    membership_ = *std::move(answer.membership);
    shards_ = std::move(answer.shards);
    may_have_moved_ = true;
  }
  repair_ = std::move(answer.repair);
  if (answer.instruction == Instruction::kStop && !ended_.has_value()) {
    ended_ = Ending{.phase = answer.phase, .reason = std::move(answer.reason)};
    stop_->Request();
  }
}

void Session::TakeFailure(const absl::Status& status) {
  last_ = status;
  if (MayPass(status)) {
    if (reachable_) {
      Log(LogLevel::kWarning,
          absl::StrCat(absl::IsUnauthenticated(status) ? "" : "the coordinator does not answer: ",
                       std::string(status.message()), "; the data plane goes on, trying again"));
    }
    reachable_ = false;
    return;
  }
  // The run has not begun, and the place was given up. Its index may be another worker's by now,
  // whose incarnation was wanted. Where another process has taken the place, the registration is
  // refused.
  if (has_place_ && membership_.epoch == 0 &&
      (absl::IsNotFound(status) || absl::IsAborted(status))) {
    Log(LogLevel::kWarning,
        absl::StrCat("has lost its place before the run began, and registers again: ",
                     std::string(status.message())));
    has_place_ = false;
    NoteAnswer();
    return;
  }
  // It answered, and knows nothing of this worker: a coordinator of another run, or a new one.
  if (!ended_.has_value()) {
    ended_ = Ending{.phase = RunPhase::kFailed,
                    .reason = absl::StrCat("the coordinator refused a ",
                                           has_place_ ? "heartbeat" : "registration", ": ",
                                           std::string(status.message()))};
    stop_->Request();
  }
}

const Member* Session::Self() const {
  const auto self = std::ranges::find(membership_.members, worker_, &Member::worker);
  return self == membership_.members.end() ? nullptr : &*self;
}

bool Session::TakesPart() const {
  const Member* const self = Self();
  return self != nullptr && self->first_round != kRoundNever;
}

absl::StatusOr<std::vector<std::string>> Session::Endpoints(size_t shard_count) const {
  std::vector<std::string> endpoints(shard_count);
  for (const ShardAddress& shard : shards_) {
    if (shard.shard >= shard_count) {
      return absl::InvalidArgumentError(absl::StrCat("got the address of shard ", shard.shard,
                                                     ", wanted shards 0 to ", shard_count - 1));
    }
    endpoints[shard.shard] = shard.data_endpoint;
  }
  return endpoints;
}

absl::StatusOr<Session::Start> Session::AwaitStart(uint32_t shard_count) {
  std::unique_lock lock(mutex_);
  while (Self() == nullptr || shards_.size() != shard_count) {
    if (ended_.has_value() || stop_->requested()) {
      return absl::CancelledError("asked to stop before the run began");
    }
    if (Silence() > options_.start_timeout)
      return SilentFor(options_, "the run's beginning", last_);
    changed_.wait_for(lock, kPatience);
  }
  LONGWAVE_ASSIGN_OR_RETURN(endpoints_, Endpoints(shard_count));
  return Start{.run = run_, .shard_endpoints = endpoints_, .first_round = Self()->first_round};
}

absl::StatusOr<bool> Session::Finish(const FinalReport& report, uint32_t last_round) {
  std::unique_lock lock(mutex_);
  final_ = report;
  Tell();
  while (!ended_.has_value()) {
    if (stop_->requested()) return absl::CancelledError("asked to stop");
    const bool is_to_write = validates_ && report.model_file.empty();
    if (told_ && (is_to_write || (repair_.has_value() && repair_->round == last_round))) {
      final_.reset();
      return false;
    }
    if (told_ && Silence() > kFarewellPatience) return true;
    if (!told_ && Silence() > options_.start_timeout)
      return SilentFor(options_, "the final report", last_);
    changed_.wait_for(lock, kPatience);
  }
  return true;
}

void Session::Fail(const std::string& reason) {
  std::unique_lock lock(mutex_);
  failure_ = reason;
  state_.phase = WorkerPhase::kFailed;
  AwaitTold(lock, kFailurePatience);
}

void Session::Leave() {
  std::unique_lock lock(mutex_);
  if (final_.has_value()) return;
  leaving_ = true;
  AwaitTold(lock, kLeavePatience);
}

void Session::Tell() {
  ++wish_;
  told_ = false;
  urgent_ = true;
  wake_.notify_all();
}

void Session::AwaitTold(std::unique_lock<std::mutex>& lock, absl::Duration patience) {
  Tell();
  const absl::Time give_up = MonotonicNow() + patience;
  while (!told_ && !ended_.has_value() && MonotonicNow() < give_up) {
    changed_.wait_for(lock, kPatience);
  }
}

uint32_t Session::worker() const {
  std::lock_guard lock(mutex_);
  return worker_;
}

std::optional<Session::Ending> Session::ended() const {
  std::lock_guard lock(mutex_);
  return ended_;
}

uint32_t Session::epoch() const {
  std::lock_guard lock(mutex_);
  return membership_.epoch;
}

absl::Duration Session::coordinator_silence() const {
  std::lock_guard lock(mutex_);
  return Silence();
}

bool Session::validates() const {
  std::lock_guard lock(mutex_);
  return validates_;
}

void Session::SetState(const WorkerState& state) {
  std::lock_guard lock(mutex_);
  state_ = state;
}

uint32_t Session::first_round() const {
  std::lock_guard lock(mutex_);
  const Member* const self = Self();
  return self == nullptr ? kRoundNever : self->first_round;
}

bool Session::other_start() const {
  std::lock_guard lock(mutex_);
  const Member* const self = Self();
  return self != nullptr && self->other_start;
}

void Session::SetReadyRound(uint32_t round) {
  {
    std::lock_guard lock(mutex_);
    if (ready_round_ == round) return;
    ready_round_ = round;
    // The first round of a member that waits for one depends on it.
    if (TakesPart()) return;
    urgent_ = true;
  }
  wake_.notify_all();
}

std::optional<std::vector<std::string>> Session::TakeNewEndpoints() {
  std::lock_guard lock(mutex_);
  if (!std::exchange(may_have_moved_, false) || shards_.size() != endpoints_.size()) {
    return std::nullopt;
  }
  absl::StatusOr<std::vector<std::string>> endpoints = Endpoints(endpoints_.size());
  if (!endpoints.ok() || *endpoints == endpoints_) return std::nullopt;
  endpoints_ = *std::move(endpoints);
  return endpoints_;
}

std::optional<Repair> Session::repair() const {
  std::lock_guard lock(mutex_);
  return repair_;
}

void Session::Report(RoundReport report) {
  {
    std::lock_guard lock(mutex_);
    unanswered_.push_back(std::move(report));
    urgent_ = true;
  }
  wake_.notify_all();
}

}  // namespace longwave
