#ifndef LONGWAVE_WORKER_MEMBER_SESSION_H_
#define LONGWAVE_WORKER_MEMBER_SESSION_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/layout/manifest.h"
#include "common/rpc/coordinator_client.h"
#include "common/wire/control.h"
#include "worker/core/session_core.h"
#include "worker/member/control_plane.h"
#include "worker/member/stop_signal.h"

namespace longwave {

struct SessionOptions {
  std::string name;
  uint64_t identity = 0;    // of the worker's folder; 0: it has none
  uint64_t process = 0;     // of that folder's; 0 likewise
  std::string coordinator;  // its address, for sentences
  Manifest manifest;
  uint64_t layout_hash = 0;
  std::string settings;                // BindingSettings of the configuration
  std::vector<uint64_t> start_hashes;  // of its first weights (StartHashes); empty: it has none
  std::string data_key;  // public key of its data connections; empty: they are not encrypted
  absl::Duration heartbeat_interval = absl::Milliseconds(250);
  absl::Duration start_timeout = absl::Seconds(120);  // silence of the coordinator that is borne
};

// A worker's membership of a run: SessionCore, driven by a thread of its own. During training the
// coordinator may be away: reports wait until it answers. Thread-safe.
class Session final : public ControlPlane {
 public:
  // Registers, again and again while nobody answers. `client` and `stop` outlive the session;
  // `stop` is also set when the coordinator says so. Unavailable: no answer within start_timeout.
  // Cancelled: `stop`. Others: the coordinator's refusal.
  static absl::StatusOr<std::unique_ptr<Session>> Join(CoordinatorClient* client,
                                                       SessionOptions options, StopSignal* stop);
  ~Session() override;

  // Of the run, as the coordinator told last, this worker included; 0: not told yet.
  uint32_t members() const;
  // Its index. It may be another one until AwaitStart returns, after a lost place.
  uint32_t worker() const;

  struct Start {
    uint64_t run = 0;
    std::vector<std::string> shard_endpoints;  // by shard index
  };
  // Waits until this worker is a member and `shard_count` shards are there. Cancelled: the session
  // has ended or `stop` was set. Unavailable: the coordinator was silent for start_timeout.
  absl::StatusOr<Start> AwaitStart(uint32_t shard_count);

  // Tells the coordinator (which knows the worker's name) why this worker ends early; waits a
  // little for its answer, unless the run has ended already.
  void Fail(const std::string& reason);

  // Tells the coordinator that this worker leaves for good, so that nobody waits for it; waits a
  // little for its answer. Nothing to be told once the run has ended or Finish was called.
  void Leave();

  // See SessionCore.
  std::optional<absl::Status> ended() const;

  Directive directive() const override;
  bool stop_requested() const override { return stop_->requested(); }
  bool has_ended() const override { return ended().has_value(); }
  absl::Duration coordinator_silence() const override;
  void SetState(const WorkerState& state) override;
  void Report(RoundReport report) override;
  void SetReadyRound(uint32_t round) override;
  std::optional<std::vector<std::string>> TakeNewEndpoints() override;
  void Finish(const FinalReport& report) override;
  // Once the report was answered, a coordinator that is gone has ended the run, too.
  absl::StatusOr<bool> AwaitEnd(absl::Duration patience) override;

 private:
  Session(CoordinatorClient* client, SessionOptions options, RegisterWorker registration,
          StopSignal* stop);

  void CallUntilClosed();
  // The call that is due, without the lock meanwhile, and what comes of it. False: none is due.
  bool Call(std::unique_lock<std::mutex>& lock);
  absl::Status AwaitRegistration();
  // Waits until the last call of Finish, Fail or Leave was answered or the run has ended.
  void AwaitTold(std::unique_lock<std::mutex>& lock, absl::Duration patience);
  absl::Duration Silence() const;

  CoordinatorClient* const client_;
  const SessionOptions options_;
  StopSignal* const stop_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;     // the thread: something is to be told now
  std::condition_variable changed_;  // everyone else: something was answered
  SessionCore core_;
  uint32_t members_ = 0;
  bool closing_ = false;
  std::vector<std::string> endpoints_;  // by shard index, as AwaitStart or TakeNewEndpoints gave
  uint64_t endpoints_seen_ = 0;         // the core's endpoints_version
  std::thread thread_;                  // last: it uses all of the above
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_SESSION_H_
