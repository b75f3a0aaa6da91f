#include "worker/member/session.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/figures.h"
#include "common/base/random_word.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace longwave {
namespace {

// Interval of checks of the stop signal during a wait; a signal handler's thread may set it at any
// time.
constexpr std::chrono::milliseconds kPatience(50);
// The coordinator may be busy, and nobody else says why the worker ends.
constexpr absl::Duration kFailurePatience = absl::Seconds(15);
// A process that was told to end has little time to leave.
constexpr absl::Duration kLeavePatience = absl::Milliseconds(500);
// After an answered final report, a coordinator without an answer for this long has exited.
constexpr absl::Duration kFarewellPatience = absl::Seconds(3);

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Join(CoordinatorClient* client,
                                                       SessionOptions options,
                                                       RegisterWorker registration,
                                                       StopSignal* stop) {
  registration.incarnation = RandomWord();
  if (registration.identity == 0) registration.identity = registration.incarnation;
  std::unique_ptr<Session> session(
      new Session(client, std::move(options), std::move(registration), stop));
  LONGWAVE_RETURN_IF_ERROR(session->AwaitRegistration());
  return session;
}

Session::Session(CoordinatorClient* client, SessionOptions options, RegisterWorker registration,
                 StopSignal* stop)
    : client_(client),
      options_(std::move(options)),
      stop_(stop),
      core_(std::move(registration), options_.heartbeat_interval, MonotonicNow(), options_.rounds),
      thread_([this] { CallUntilClosed(); }) {}

Session::~Session() {
  {
    std::unique_lock lock(mutex_);
    const absl::Time give_up = MonotonicNow() + kLeavePatience;
    while (core_.is_registered() && core_.has_unanswered_warnings() && !core_.is_refused() &&
           MonotonicNow() < give_up) {
      changed_.wait_for(lock, kPatience);
    }
    closing_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Session::CallUntilClosed() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (!Call(lock)) {
      const absl::Duration pause = core_.due_at() - MonotonicNow();
      wake_.wait_for(lock, absl::ToChronoMilliseconds(std::min(pause, absl::Hours(1))));
      continue;
    }
    for (const CoreNotice& notice : core_.TakeNotices())
      Log(notice.is_warning ? LogLevel::kWarning : LogLevel::kInfo, notice.text);
    if (core_.ended().has_value() && core_.is_registered()) stop_->Request();
    changed_.notify_all();
  }
}

bool Session::Call(std::unique_lock<std::mutex>& lock) {
  const SessionCore::Call call = core_.TakeDue(MonotonicNow());
  if (const auto* const registration = std::get_if<RegisterWorker>(&call)) {
    lock.unlock();
    const absl::StatusOr<uint32_t> worker = client_->Register(*registration);
    lock.lock();
    core_.OnRegistered(worker, MonotonicNow());
    return true;
  }
  if (const auto* const heartbeat = std::get_if<WorkerHeartbeat>(&call)) {
    lock.unlock();
    absl::StatusOr<WorkerHeartbeatReply> answer = client_->Heartbeat(*heartbeat);
    lock.lock();
    core_.OnHeartbeatReply(std::move(answer), MonotonicNow());
    return true;
  }
  return false;
}

absl::Status Session::AwaitRegistration() {
  std::unique_lock lock(mutex_);
  while (!core_.is_registered()) {
    if (core_.ended().has_value()) return *core_.ended();
    if (stop_->requested()) return Cancelled("asked to stop before registration");
    LONGWAVE_RETURN_IF_ERROR(CheckSilence("start", options_.start_timeout, "a registration"));
    changed_.wait_for(lock, kPatience);
  }
  return absl::OkStatus();
}

absl::StatusOr<RunStart> Session::AwaitStart(uint32_t shard_count) {
  std::unique_lock lock(mutex_);
  while (!core_.KnowsRun(shard_count)) {
    if (core_.ended().has_value() || stop_->requested())
      return Cancelled("asked to stop before the run began");
    LONGWAVE_RETURN_IF_ERROR(CheckSilence("start", options_.start_timeout, "the run's beginning"));
    changed_.wait_for(lock, kPatience);
  }
  LONGWAVE_ASSIGN_OR_RETURN(endpoints_, core_.Endpoints(shard_count));
  return RunStart{.run = core_.run(), .worker = core_.worker(), .shard_endpoints = endpoints_};
}

std::optional<std::vector<std::string>> Session::TakeNewEndpoints() {
  std::lock_guard lock(mutex_);
  const auto shard_count = static_cast<uint32_t>(endpoints_.size());
  if (std::exchange(endpoints_seen_, core_.endpoints_version()) == core_.endpoints_version() ||
      !core_.KnowsRun(shard_count)) {
    return std::nullopt;
  }
  absl::StatusOr<std::vector<std::string>> endpoints = core_.Endpoints(shard_count);
  if (!endpoints.ok() || *endpoints == endpoints_) return std::nullopt;
  endpoints_ = *std::move(endpoints);
  return endpoints_;
}

absl::StatusOr<bool> Session::AwaitEnd(absl::Duration patience) {
  std::unique_lock lock(mutex_);
  if (!core_.ended().has_value()) changed_.wait_for(lock, absl::ToChronoMilliseconds(patience));
  if (core_.ended().has_value()) return true;
  if (stop_->requested()) return Cancelled("asked to stop");
  if (core_.told()) return Silence() > kFarewellPatience;
  LONGWAVE_RETURN_IF_ERROR(CheckSilence("away", options_.away_timeout, "the run's end"));
  return false;
}

void Session::Fail(const std::string& reason) {
  std::unique_lock lock(mutex_);
  core_.Fail(reason);
  AwaitTold(lock, kFailurePatience);
}

void Session::Leave() {
  std::unique_lock lock(mutex_);
  if (core_.has_final()) return;
  core_.Leave();
  AwaitTold(lock, kLeavePatience);
}

void Session::AwaitTold(std::unique_lock<std::mutex>& lock, absl::Duration patience) {
  wake_.notify_all();
  const absl::Time give_up = MonotonicNow() + patience;
  while (!core_.told() && !core_.ended().has_value() && MonotonicNow() < give_up)
    changed_.wait_for(lock, kPatience);
}

absl::Status Session::CheckSilence(const char* limit, absl::Duration patience,
                                   const char* wanted) const {
  if (Silence() <= patience) return absl::OkStatus();
  const absl::Status& last = core_.last_failure();
  const bool answers = absl::IsUnauthenticated(last);
  return Unavailable(
      "the coordinator at ", options_.coordinator,
      answers ? " did not accept this worker's certificate for " : " did not answer for ",
      FormatSeconds(patience), " (cluster.", limit, "_timeout_s); wanted ", wanted,
      answers ? "; " : "", answers ? last.message() : "");
}

absl::Duration Session::Silence() const { return MonotonicNow() - core_.answered_at(); }

}  // namespace longwave
