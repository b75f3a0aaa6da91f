#ifndef LONGWAVE_WORKER_CORE_SESSION_CORE_H_
#define LONGWAVE_WORKER_CORE_SESSION_CORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/heartbeat_schedule.h"
#include "common/wire/control.h"

namespace longwave {

// What the coordinator said last to a worker.
struct Directive {
  uint32_t epoch = 0;
  // The first round that this worker may push to; kRoundNever: it is to catch up first.
  uint32_t first_round = kRoundNever;
  // The replica did not begin with the run's first weights: each segment begins with a snapshot.
  bool other_start = false;
  bool validates = false;
  std::optional<Repair> repair;
  // Of a worker that has all rounds: the sealing round that it is to report, 0: it has, or its
  // report is on its way; and whether every member's replica is known to be equal.
  uint32_t sealing_round = 0;
  bool sealed = false;
  bool final_answered = false;  // it has the last final report
};

struct CoreNotice {
  bool is_warning = false;
  std::string text;
};

// A worker's dialogue with the coordinator, pure: what there is to tell waits until it is answered,
// and what was answered stands until something newer comes. A worker that has lost its place before
// it heard of the run's beginning (it was stopped for longer than the heartbeat timeout, say)
// registers again. Whoever drives it (Session, the simulator's worker) makes the calls that are
// due. Not thread-safe.
class SessionCore {
 public:
  SessionCore(RegisterWorker registration, absl::Duration heartbeat_interval, absl::Time now)
      : registration_(std::move(registration)), schedule_(heartbeat_interval, now) {}

  using Call = std::variant<std::monostate, RegisterWorker, WorkerHeartbeat>;
  // The call that is due; its answer goes to Take before another one is.
  Call Due(absl::Time now);
  absl::Time due_at() const { return schedule_.due_at(); }
  void Take(const absl::StatusOr<uint32_t>& worker, absl::Time now);
  void Take(absl::StatusOr<WorkerHeartbeatReply> answer, absl::Time now);
  std::vector<CoreNotice> TakeNotices() { return std::exchange(notices_, {}); }

  // To be told. The last three are told at once; `told` is of the last of them. A report takes a
  // final report back: that was of the replica before.
  void SetState(const WorkerState& state) { state_ = state; }
  void Report(RoundReport report);
  void SetReadyRound(uint32_t round);
  void Finish(const FinalReport& report);
  void Fail(const std::string& reason);
  void Leave();
  bool told() const { return told_; }

  // What was heard.
  bool is_registered() const { return has_registered_; }
  uint32_t worker() const { return worker_; }  // its index
  uint64_t run() const { return run_; }
  Directive directive() const;
  // This worker is a member, and all shards are known.
  bool KnowsRun(uint32_t shard_count) const;
  // By shard index. InvalidArgument: an index of shard_count or more.
  absl::StatusOr<std::vector<std::string>> Endpoints(uint32_t shard_count) const;
  // Counts the times at which the shards' addresses were told.
  uint64_t endpoints_version() const { return endpoints_version_; }
  // How the run has ended for this worker: finished or stopped, OK. Aborted, with the reason: it
  // failed, or it goes on without this worker. Others: the first registration was refused.
  const std::optional<absl::Status>& ended() const { return ended_; }

  // Its call was refused, and not the run ended by an answer.
  bool is_refused() const { return schedule_.is_refused(); }

  bool has_final() const { return final_.has_value(); }
  absl::Time answered_at() const { return schedule_.answered_at(); }
  // Of the last call that failed.
  const absl::Status& last_failure() const { return last_failure_; }

 private:
  WorkerHeartbeat NextHeartbeat();
  // Of this worker in the membership; null if it is no member.
  const Member* Self() const;
  bool TakesPart() const;
  void Tell();
  HeartbeatSchedule::End TakeStatus(const absl::Status& status, absl::Time now);

  const RegisterWorker registration_;
  HeartbeatSchedule schedule_;
  std::vector<CoreNotice> notices_;
  bool has_registered_ = false;
  uint32_t worker_ = 0;

  WorkerState state_;
  std::vector<RoundReport> unanswered_;
  size_t under_way_ = 0;  // of them, in the heartbeat under way
  uint32_t ready_round_ = kRoundNever;
  std::optional<FinalReport> final_;
  std::string failure_;
  bool leaving_ = false;
  uint64_t wish_ = 0;       // counts the calls of Finish, Fail and Leave
  uint64_t sent_wish_ = 0;  // that the heartbeat under way tells whole
  bool told_ = false;

  uint64_t run_ = 0;
  Membership membership_;
  std::vector<ShardAddress> shards_;
  uint64_t endpoints_version_ = 0;
  bool validates_ = false;
  std::optional<Repair> repair_;
  uint32_t sealing_round_ = 0;
  bool sealed_ = false;
  std::optional<absl::Status> ended_;
  absl::Status last_failure_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CORE_SESSION_CORE_H_
