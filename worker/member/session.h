#ifndef LONGWAVE_WORKER_MEMBER_SESSION_H_
#define LONGWAVE_WORKER_MEMBER_SESSION_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/rpc/coordinator_client.h"
#include "worker/core/session_core.h"
#include "worker/member/control_plane.h"
#include "worker/member/stop_signal.h"

namespace longwave {

struct SessionOptions {
  std::string coordinator;  // address, for messages
  absl::Duration heartbeat_interval = absl::Milliseconds(250);
  // Limits of waits for the coordinator's answer: until the run begins, and for its end.
  absl::Duration start_timeout = absl::Seconds(120);
  absl::Duration away_timeout = absl::InfiniteDuration();
  std::optional<RoundPlan> rounds;  // see SessionCore
};

// A worker's membership of a run: SessionCore, driven by a thread. During training the coordinator
// may be unreachable: reports wait until it answers. Thread-safe.
class Session final : public ControlPlane {
 public:
  // Registers, with retries while there is no answer. `registration` lacks the incarnation; its
  // identity is 0 where there is no folder. `client` and `stop` outlive the session; the
  // coordinator may set `stop`, too. Unavailable: no answer within start_timeout. Cancelled:
  // `stop`. Other errors: the coordinator's refusal.
  static absl::StatusOr<std::unique_ptr<Session>> Join(CoordinatorClient* client,
                                                       SessionOptions options,
                                                       RegisterWorker registration,
                                                       StopSignal* stop);
  // Waits a little for the answer to warnings.
  ~Session() override;

  // Members of the run by the coordinator's last answer, including this worker; 0: not known yet.
  uint32_t members() const {
    return Locked([this] { return core_.members(); });
  }
  // Index of this worker. The index may change until AwaitStart returns, after a lost place.
  uint32_t worker() const {
    return Locked([this] { return core_.worker(); });
  }

  // Waits until this worker is a member and `shard_count` shards are known. The result lacks
  // process and keys. Cancelled: the session has ended or `stop` was set. Unavailable: no answer
  // from the coordinator for start_timeout.
  absl::StatusOr<RunStart> AwaitStart(uint32_t shard_count);

  // Tells the coordinator (which knows the worker's name) why this worker ends early. Waits a
  // little for the answer, unless the run has ended already.
  void Fail(const std::string& reason);

  // Tells the coordinator that this worker leaves for good, so that the run does not wait for it.
  // Waits a little for the answer. Does nothing after the run's end or after Finish.
  void Leave();

  Directive directive() const override {
    return Locked([this] { return core_.directive(); });
  }
  bool stop_requested() const override { return stop_->requested(); }
  std::optional<absl::Status> ended() const override {
    return Locked([this] { return core_.ended(); });
  }
  absl::Duration coordinator_silence() const override {
    return Locked([this] { return Silence(); });
  }
  void Warn(const std::string& text) override {
    Change([&] { core_.Warn(text); });
  }
  uint64_t warnings() const override {
    return Locked([this] { return core_.warnings(); });
  }
  void SetState(const WorkerState& state) override {
    Locked([&] { core_.SetState(state); });
  }
  void Report(RoundReport report) override {
    Change([&] { core_.Report(std::move(report)); });
  }
  void SetReadyRound(uint32_t round) override {
    Change([&] { core_.SetReadyRound(round); });
  }
  std::optional<std::vector<std::string>> TakeNewEndpoints() override;
  void Finish(const FinalReport& report) override {
    Change([&] { core_.Finish(report); });
  }
  // After an answered report, a coordinator that no longer answers has ended the run.
  absl::StatusOr<bool> AwaitEnd(absl::Duration patience) override;

 private:
  Session(CoordinatorClient* client, SessionOptions options, RegisterWorker registration,
          StopSignal* stop);

  template <typename F>
  std::invoke_result_t<F> Locked(F f) const {
    const std::lock_guard lock(mutex_);
    return f();
  }
  // For what may make a call due.
  template <typename F>
  void Change(F f) {
    Locked(f);
    wake_.notify_all();
  }
  void CallUntilClosed();
  // Makes the due call, with the lock released, and handles its result. False: no call is due.
  bool Call(std::unique_lock<std::mutex>& lock);
  absl::Status AwaitRegistration();
  // Waits for the answer to the last Finish, Fail or Leave, or for the run's end.
  void AwaitTold(std::unique_lock<std::mutex>& lock, absl::Duration patience);
  absl::Duration Silence() const;
  // Unavailable: no answer for longer than `patience`, which the key cluster.<limit>_timeout_s
  // sets.
  absl::Status CheckSilence(const char* limit, absl::Duration patience, const char* wanted) const;

  CoordinatorClient* const client_;
  const SessionOptions options_;
  StopSignal* const stop_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;     // for the thread: a call is due
  std::condition_variable changed_;  // for other threads: an answer has come
  SessionCore core_;
  bool closing_ = false;
  // By shard index, as last returned by AwaitStart or TakeNewEndpoints.
  std::vector<std::string> endpoints_;
  uint64_t endpoints_seen_ = 0;  // the core's endpoints_version
  std::thread thread_;           // last, since it uses all members above
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_SESSION_H_
