#ifndef LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_
#define LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/rng.h"
#include "common/layout/manifest.h"
#include "common/wire/control.h"
#include "server/coordinator/round_ledger.h"

namespace longwave {

struct CoordinatorOptions {
  uint32_t workers_wanted = 1;
  uint32_t shards_wanted = 1;
  uint64_t rounds = 1;
  bool promises_equal_replicas = true;
  std::string settings;  // lines "key: value" that everybody who registers must have too
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  absl::Duration start_timeout = absl::Seconds(300);
};

struct Tick {};  // time has passed
struct StopRequested {
  std::string reason;
};

using CoordinatorEvent = std::variant<RegisterWorker, RegisterShard, WorkerHeartbeat,
                                      ShardHeartbeat, StopRequested, Tick>;

// What the coordinator is to do, in order. Exactly one answer for each event that asks for one.
struct WorkerRegistered {
  uint32_t worker = 0;
};
struct ShardRegistered {
  uint64_t run = 0;
};
// The answer of a call that failed.
struct Refused {
  absl::Status status;
};
// All members have reported it.
struct RoundFinished {
  RoundRecord record;
};
struct PhaseChanged {
  RunPhase phase;
  std::string reason;
};
// A line for the log.
struct Notice {
  std::string text;
};

using CoordinatorEffect =
    std::variant<WorkerRegistered, ShardRegistered, WorkerHeartbeatReply, ShardHeartbeatReply,
                 Refused, RoundFinished, PhaseChanged, Notice>;

// Membership and schedule of one run, pure: no socket, thread or clock inside. Time only comes in
// by `now`; what is overdue is acted upon at a Tick.
//
// waiting: the first state. Legal are registrations of workers (whose manifest and layout hash must
// be the first one's) and shards, and heartbeats without rounds. A worker or shard that is silent
// for heartbeat_timeout gives its place up. Left for training once workers_wanted workers and
// shards_wanted shards are registered; for failed after start_timeout.
//
// training: entered with epoch 1, whose members are all workers, from round 0 on. Legal are
// heartbeats. Registrations are refused, except that a repeated one gets its answer again. A round
// is finished when every member has reported it; hashes are compared then. A worker silent for
// heartbeat_timeout is lost: the next epoch begins without it. (One that has sent its final report
// may be silent.) Left for finished when every member has sent its final report and one of them
// names the weights that it wrote; for failed when a worker or shard reports a failure, a loss is
// not finite, a shard is silent for heartbeat_timeout, no worker is left, or all are done but none
// has written the weights or replicas differed that were promised to be equal.
//
// finished, failed, stopped (by StopRequested, from waiting or training): the last states; nothing
// leads out of them. Every heartbeat is answered with kStop and the reason, every registration with
// FailedPrecondition.
//
// An epoch is shown to shards first: a worker's answers carry a membership only once every shard's
// heartbeat has named its epoch as known (until then, at the start, they say `waiting`). So no push
// reaches a shard that does not know its sender. The run's manifest goes to a shard with the epoch.
//
// Every registration and heartbeat has exactly one answer among the effects: WorkerRegistered,
// ShardRegistered, a reply, or Refused with
//   InvalidArgument     a setting, name, manifest, layout hash, shard index or report that does not
//                       fit
//   AlreadyExists       the name or index is taken by a live member of another incarnation
//   FailedPrecondition  nobody is wanted any more, or the run is over
//   NotFound            a heartbeat of somebody who is not registered
//   Aborted             a heartbeat of another incarnation than the registered one
// A refused event changes nothing.
//
// Memory: the members, and the ledger's records (about 150 bytes a finished round).
class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);

  std::vector<CoordinatorEffect> Step(const CoordinatorEvent& event, absl::Time now, Rng& rng);

  // Records from index round_records_from on, at most kStatusRecordsMax of them: ask again from
  // where they end, as record_count is of all.
  RunStatus Status(uint64_t round_records_from, absl::Time now) const;
  RunPhase phase() const { return phase_; }
  bool is_over() const { return phase_ != RunPhase::kWaiting && phase_ != RunPhase::kTraining; }
  // The run is over, and every worker and shard that still takes part has had it as an answer.
  bool EveryoneToldOfTheEnd() const;

  static constexpr uint64_t kStatusRecordsMax = 8192;
  static constexpr size_t kNameBytesMax = 128;

 private:
  struct Worker {
    Member member;
    uint64_t incarnation = 0;
    WorkerState state;  // as it reported it
    absl::Time heard;
    std::optional<FinalReport> final;
    bool lost = false;  // silent for too long: no longer a member
    bool told = false;  // that the run is over
  };
  struct Shard {
    ShardAddress address;
    uint64_t incarnation = 0;
    ShardState state;
    absl::Time heard;
    uint32_t known_epoch = 0;
    bool told = false;  // that the run is over
  };
  using Effects = std::vector<CoordinatorEffect>;

  void On(const RegisterWorker& request, absl::Time now, Effects& effects);
  void On(const RegisterShard& request, absl::Time now, Effects& effects);
  void On(const WorkerHeartbeat& heartbeat, absl::Time now, Effects& effects);
  void On(const ShardHeartbeat& heartbeat, absl::Time now, Effects& effects);
  void On(const StopRequested& request, absl::Time now, Effects& effects);
  void On(const Tick&, absl::Time now, Effects& effects);

  // who: "worker w", for the sentence.
  absl::Status CheckSettings(const std::string& who, const std::string& settings) const;
  absl::Status CheckRegistration(const RegisterWorker& request, absl::Time now) const;
  absl::Status CheckRegistration(const RegisterShard& request, absl::Time now) const;
  absl::Status CheckHeartbeat(const WorkerHeartbeat& heartbeat) const;
  // Why the run can't go on after this heartbeat; empty if it can.
  std::string FailureIn(const Worker& worker, const WorkerHeartbeat& heartbeat) const;

  void BeginTrainingIfComplete(absl::Time now, Effects& effects);
  void FinishRounds(absl::Time now, Effects& effects);
  void FinishRunIfDone(absl::Time now, Effects& effects);
  void DropSilentBeforeStart(absl::Time now, Effects& effects);
  void LoseSilentWorkers(absl::Time now, Effects& effects);
  void End(RunPhase phase, std::string reason, absl::Time now, Effects& effects);

  WorkerHeartbeatReply ReplyTo(const WorkerHeartbeat& heartbeat) const;
  ShardHeartbeatReply ReplyTo(const ShardHeartbeat& heartbeat) const;

  std::string OverSentence() const;  // "the run is over (failed: …)"
  bool EveryShardKnowsEpoch() const;
  // The live member of lowest index; null if there is none.
  const Worker* Validator() const;
  const Worker* FindWorker(const std::string& name) const;
  // Why the run, all of whose members are done, is not finished; empty if it is.
  std::string WhatIsMissing() const;
  double SecondsOfTraining(absl::Time now) const;

  const CoordinatorOptions options_;
  RunPhase phase_ = RunPhase::kWaiting;
  std::string reason_;  // why the run is over
  uint64_t run_ = 0;    // drawn at the first step; never 0
  std::optional<absl::Time> first_step_;
  std::optional<absl::Time> training_began_;
  std::optional<absl::Time> ended_;
  std::optional<Manifest> manifest_;  // the first worker's, and everyone's
  uint64_t layout_hash_ = 0;
  std::map<uint32_t, Worker> workers_;  // by index; lost ones stay, to be shown
  std::map<uint32_t, Shard> shards_;
  Membership membership_;
  RoundLedger ledger_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_
