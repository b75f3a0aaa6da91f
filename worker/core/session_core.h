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
#include "common/base/fields.h"
#include "common/base/heartbeat_schedule.h"
#include "common/control/control.h"
#include "common/control/round_plan.h"

namespace longwave {

// The coordinator's last answer to a worker.
struct Directive {
  uint32_t epoch = 0;
  // The first round that this worker may push to. kRoundNever: the worker has to catch up first.
  uint32_t first_round = kRoundNever;
  // The replica did not begin with the run's first weights, so each segment begins with a snapshot.
  bool other_start = false;
  bool validates = false;
  std::optional<Repair> repair;
  // The sealing round that a worker with all rounds has to report; 0: reported, or on its way.
  // sealed: every member's replica is known to be equal.
  uint32_t sealing_round = 0;
  bool sealed = false;
  bool final_answered = false;  // the coordinator has the last final report
  Intervals intervals;          // with sync.inner_steps auto: all decided rounds, as far as known
  LONGWAVE_FIELDS(epoch, first_round, other_start, validates, repair, sealing_round, sealed,
                  final_answered, intervals)
};

struct CoreNotice {
  bool is_warning = false;
  std::string text;
};

// A worker's dialogue with the coordinator, pure. Reports wait until they are answered, and an
// answer stands until a newer one comes. A worker that loses its place before it hears of the run's
// beginning (stopped for longer than the heartbeat timeout, say) registers again. The driver
// (Session, the simulator's worker) makes the calls that are due. Not thread-safe.
class SessionCore {
 public:
  // rounds: the plan without decided rounds, if the coordinator decides the inner steps of rounds.
  SessionCore(RegisterWorker registration, absl::Duration heartbeat_interval, absl::Time now,
              std::optional<RoundPlan> rounds = std::nullopt)
      : registration_(std::move(registration)),
        schedule_(heartbeat_interval, now),
        rounds_(std::move(rounds)) {}

  using Call = std::variant<std::monostate, RegisterWorker, WorkerHeartbeat>;
  // The call that is due. The driver passes the answer to OnRegistered or OnHeartbeatReply before
  // it asks for another call.
  Call TakeDue(absl::Time now);
  absl::Time due_at() const { return schedule_.due_at(); }
  void OnRegistered(const absl::StatusOr<uint32_t>& worker, absl::Time now);
  void OnHeartbeatReply(absl::StatusOr<WorkerHeartbeatReply> answer, absl::Time now);
  std::vector<CoreNotice> TakeNotices() { return std::exchange(notices_, {}); }

  // Reports to the coordinator. Finish, Fail and Leave leave at once; told() concerns the last of
  // them. Report withdraws a final report, which described an earlier replica.
  void SetState(const WorkerState& state) { state_ = state; }
  void Report(RoundReport report);
  void SetReadyRound(uint32_t round);
  void Finish(const FinalReport& report);
  void Fail(const std::string& reason);
  void Leave();
  bool told() const { return told_; }
  // A warning for people, each text once. Past the limit of a heartbeat's they stay here.
  void Warn(const std::string& text);
  uint64_t warnings() const { return warnings_.size(); }
  bool has_unanswered_warnings() const { return warnings_.size() > warnings_answered_; }

  // Answers of the coordinator.
  bool is_registered() const { return has_registered_; }
  uint32_t worker() const { return worker_; }
  uint64_t run() const { return run_; }
  uint32_t members() const { return static_cast<uint32_t>(membership_.members.size()); }
  Directive directive() const;
  // True: a member, and all shards are known.
  bool KnowsRun(uint32_t shard_count) const;
  // By shard index. InvalidArgument: an index of shard_count or more.
  absl::StatusOr<std::vector<std::string>> Endpoints(uint32_t shard_count) const;
  // Counts the answers that named the shards' addresses.
  uint64_t endpoints_version() const { return endpoints_version_; }
  // The run's end for this worker. OK: finished or stopped. Aborted, with the reason: the run
  // failed, or goes on without this worker. Others: the coordinator refused the first registration.
  const std::optional<absl::Status>& ended() const { return ended_; }

  // The coordinator refused the call, as opposed to an answer that ended the run.
  bool is_refused() const { return schedule_.is_refused(); }

  bool has_final() const { return final_.has_value(); }
  absl::Time answered_at() const { return schedule_.answered_at(); }
  // The failure of the last call that failed.
  const absl::Status& last_failure() const { return last_failure_; }

 private:
  WorkerHeartbeat NextHeartbeat();
  // The membership's entry for this worker; null: no member.
  const Member* Self() const;
  bool TakesPart() const;
  void ReportAtOnce();
  void TakeIntervals(const Intervals& part);
  HeartbeatSchedule::End OnCallEnded(const absl::Status& status, absl::Time now);

  const RegisterWorker registration_;
  HeartbeatSchedule schedule_;
  std::vector<CoreNotice> notices_;
  bool has_registered_ = false;
  uint32_t worker_ = 0;

  WorkerState state_;
  std::vector<RoundReport> unanswered_;
  size_t under_way_ = 0;  // so many of them are in the heartbeat under way
  std::vector<std::string> warnings_;
  size_t warnings_answered_ = 0;
  size_t warnings_told_ = 0;  // those before are answered or in the heartbeat under way
  uint32_t ready_round_ = kRoundNever;
  std::optional<FinalReport> final_;
  std::string failure_;
  bool leaving_ = false;
  uint64_t wish_ = 0;       // counts the calls of Finish, Fail and Leave
  uint64_t sent_wish_ = 0;  // the wish_ that the heartbeat under way tells whole
  bool told_ = false;

  uint64_t run_ = 0;
  Membership membership_;
  std::vector<ShardAddress> shards_;
  uint64_t endpoints_version_ = 0;
  bool validates_ = false;
  std::optional<Repair> repair_;
  uint32_t sealing_round_ = 0;
  bool sealed_ = false;
  std::optional<RoundPlan> rounds_;
  std::optional<absl::Status> ended_;
  absl::Status last_failure_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CORE_SESSION_CORE_H_
