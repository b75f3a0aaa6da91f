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
#include "common/base/clock.h"
#include "common/layout/manifest.h"
#include "common/rpc/coordinator_client.h"
#include "common/wire/control.h"
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

// The pause after the next heartbeat without an answer: twice the last one, from the heartbeat
// interval (or two seconds, if that is longer) up to two seconds.
absl::Duration NextBackoff(absl::Duration backoff, absl::Duration interval);

// A worker's membership of a run, kept alive by a thread of its own that tells the coordinator how
// the worker is and takes in what it answers. During training the coordinator may be away: reports
// wait until it answers. A worker that has lost its place before it heard of a run's beginning,
// since it was stopped for longer than the heartbeat timeout say, registers again. Thread-safe.
class Session final : public ControlPlane {
 public:
  // Registers, again and again while nobody answers. `client` and `stop` outlive the session;
  // `stop` is also set when the coordinator says so. Unavailable: no answer within start_timeout.
  // Cancelled: `stop`. Others: the coordinator's refusal.
  static absl::StatusOr<std::unique_ptr<Session>> Join(CoordinatorClient* client,
                                                       SessionOptions options, StopSignal* stop);
  ~Session() override;

  // Its index. It may be another one until AwaitStart returns, after a lost place.
  uint32_t worker() const;

  struct Start {
    uint64_t run = 0;
    std::vector<std::string> shard_endpoints;  // by shard index
    uint32_t first_round = 0;  // the first that this worker pushes to; kRoundNever: see first_round
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

  // How the coordinator ended the run, once it has.
  struct Ending {
    RunPhase phase = RunPhase::kFinished;
    std::string reason;
    // OK if the run was finished or stopped, as was asked. Aborted, with the reason: it failed, or
    // it goes on without this worker.
    absl::Status ToStatus() const;
  };
  std::optional<Ending> ended() const;

  uint32_t epoch() const override;
  bool validates() const override;
  bool stop_requested() const override { return stop_->requested(); }
  absl::Duration coordinator_silence() const override;
  void SetState(const WorkerState& state) override;
  void Report(RoundReport report) override;
  uint32_t first_round() const override;
  bool other_start() const override;
  void SetReadyRound(uint32_t round) override;
  std::optional<std::vector<std::string>> TakeNewEndpoints() override;
  std::optional<Repair> repair() const override;
  // True: the coordinator has ended the run (see `ended`) or, once the report was answered, is
  // gone. Unavailable: it was never answered.
  absl::StatusOr<bool> Finish(const FinalReport& report, uint32_t last_round) override;

 private:
  Session(CoordinatorClient* client, SessionOptions options, RegisterWorker registration,
          StopSignal* stop, uint32_t worker);

  void BeatUntilClosed();
  // One heartbeat, or registration where the place is lost, without the lock meanwhile; and what
  // comes of it.
  absl::Status Call(std::unique_lock<std::mutex>& lock);
  WorkerHeartbeat NextHeartbeat();
  void NoteAnswer();
  void TakeAnswer(const WorkerHeartbeat& sent, WorkerHeartbeatReply answer);
  void TakeFailure(const absl::Status& status);
  // Of this worker in membership_; null if it is no member.
  const Member* Self() const;
  // It is a member, and knows from which round on it pushes.
  bool TakesPart() const;
  // From shards_, by shard index. InvalidArgument: an index of shard_count or more.
  absl::StatusOr<std::vector<std::string>> Endpoints(size_t shard_count) const;
  // Has what is to be told sent at once.
  void Tell();
  // Likewise, and waits until it was answered or the run has ended.
  void AwaitTold(std::unique_lock<std::mutex>& lock, absl::Duration patience);
  absl::Duration Silence() const { return MonotonicNow() - last_answer_; }

  CoordinatorClient* const client_;
  const SessionOptions options_;
  const RegisterWorker registration_;
  StopSignal* const stop_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;     // the thread: something is to be told now
  std::condition_variable changed_;  // everyone else: something was answered
  uint32_t worker_;
  bool has_place_ = true;
  WorkerState state_;
  std::vector<RoundReport> unanswered_;
  std::optional<FinalReport> final_;
  std::string failure_;
  bool leaving_ = false;
  uint64_t wish_ = 0;       // counts the calls of Finish, Fail and Leave
  uint64_t sent_wish_ = 0;  // that the heartbeat under way is of
  bool told_ = false;       // the last call was answered
  bool urgent_ = false;
  bool closing_ = false;
  Membership membership_;
  std::vector<ShardAddress> shards_;
  std::vector<std::string> endpoints_;  // by shard index, as AwaitStart or TakeNewEndpoints gave
  bool may_have_moved_ = false;         // shards_ are new
  uint32_t ready_round_ = kRoundNever;
  std::optional<Repair> repair_;
  uint64_t run_ = 0;
  bool validates_ = false;
  bool reachable_ = true;
  absl::Time last_answer_;
  absl::Status last_;  // of the last heartbeat that failed
  std::optional<Ending> ended_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_SESSION_H_
