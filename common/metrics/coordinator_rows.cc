#include "common/metrics/metric_rows.h"

namespace longwave {
namespace {

Rows RunRows() {
  return {
      GaugeRow("longwave_coordinator_phase",
               {{"phase", {"waiting", "training", "finished", "failed", "stopped"}}},
               "1 for the phase that the run is in, 0 for the others."),
      GaugeRow("longwave_coordinator_waiting",
               "1 while the run waits for something beyond its rounds (workers before its first "
               "round, a silent shard, a full disk, the coordinator's own, too), 0 otherwise. "
               "`longwave status` says for what."),
      GaugeRow("longwave_coordinator_epoch", "The epoch of the membership."),
      GaugeRow("longwave_coordinator_round",
               "The oldest round that is not finished, counted from 0."),
      GaugeRow("longwave_coordinator_rounds_planned",
               "Rounds of the whole run. With `sync.inner_steps: auto`: if the interval stays."),
      GaugeRow("longwave_coordinator_inner_steps",
               "With `auto`: inner steps of the newest decided round."),
      GaugeRow("longwave_coordinator_sync_cost_ratio",
               "With `auto`: share of the time that syncs take with so many inner steps "
               "(`sync.target_share`)."),
      CounterRow("longwave_coordinator_interval_changes_total",
                 "With `auto`: changes of the interval since the run began."),
      CounterRow("longwave_coordinator_rounds_finished_total",
                 "Rounds that every member has finished or skipped, since the run began."),
      CounterRow("longwave_coordinator_steps_total",
                 "Inner steps of each worker in the finished rounds, since the run began."),
      HistogramRow("longwave_coordinator_round_seconds", LongSeconds(),
                   "Time between the ends of two rounds."),
      GaugeRow("longwave_coordinator_progress_age_seconds",
               "Time since a round was finished, or else since training or this process began. 0 "
               "in every other phase."),
      CounterRow("longwave_coordinator_training_seconds_total",
                 "Time that the run has trained, since it began."),
      GaugeRow("longwave_coordinator_parameters",
               "Parameters of the model; 0 before the first worker has registered."),
      GaugeRow("longwave_coordinator_train_loss",
               "Training loss of the last finished round, the mean over its members.",
               "once a worker has reported a loss"),
      GaugeRow("longwave_coordinator_validation_loss", "The last validation loss."),
      CounterRow("longwave_coordinator_tokens_total",
                 "Tokens that all workers have trained on, since the run began, as of their last "
                 "heartbeats."),
      GaugeRow("longwave_coordinator_tokens_per_second",
               "Tokens a second of all workers together, over the last finished round."),
      GaugeRow("longwave_coordinator_compute_ratio",
               "Share of the workers' time in which they computed, over the last finished round. "
               "The rest went to syncs."),
      CounterRow("longwave_coordinator_bytes_total", {PushedOrPulled()},
                 "Bytes that all workers have pushed to shards and pulled from them, headers and "
                 "framing included, since the run began."),
      CounterRow("longwave_coordinator_payload_bytes_total", {PushedOrPulled()},
                 "Payload bytes that all workers have pushed to shards and pulled from them, since "
                 "the run began."),
      CounterRow("longwave_coordinator_ddp_bytes_total",
                 "Bytes that DDP would have pushed for the finished rounds: a gradient in fp32 for "
                 "each step and member. As many would have come back."),
      CounterRow("longwave_coordinator_diloco_bytes_total",
                 "Bytes that DiLoCo would have pushed for the finished rounds: a pseudo-gradient "
                 "in fp32 for each round and member. As many would have come back."),
  };
}

Rows MemberRows() {
  return {
      GaugeRow("longwave_coordinator_members",
               {{"state",
                 {"starting", "training", "syncing", "validating", "done", "failed", "lost",
                  "joining", "expelled"}}},
               "Workers by what they do, as their heartbeats say, or as the coordinator knows: "
               "`joining` (it catches up), `lost` (silent for too long), `failed`, `expelled` and "
               "`done` (also one that has left)."),
      GaugeRow("longwave_coordinator_members_active", "Members that take part in rounds."),
      GaugeRow("longwave_coordinator_ranks",
               "Processes of the active members, each with a device. A node has several."),
      GaugeRow("longwave_coordinator_members_wanted",
               "Workers that the run waited for before its first round (`run.workers`)."),
      GaugeRow("longwave_coordinator_shards", {{"state", {"up", "troubled", "silent"}}},
               "Registered shards by state. `troubled`: it takes no pushes for now. `silent`: it "
               "was not heard for `cluster.heartbeat_timeout_s`."),
      GaugeRow("longwave_coordinator_shards_wanted", "Shards of the run."),
      CounterRow("longwave_coordinator_heartbeats_total", {{"of", {"worker", "shard"}}},
                 "Heartbeats that the coordinator received."),
      GaugeRow("longwave_coordinator_heartbeat_age_seconds", {Stat()},
               "Time since the last heartbeat, over all members."),
      GaugeRow("longwave_coordinator_shard_heartbeat_age_seconds", {Stat()},
               "Time since the last heartbeat, over all shards."),
      CounterRow("longwave_coordinator_joins_total", {{"how", {"new", "returned"}}},
                 "Workers that became members, by whether their name was new."),
      CounterRow("longwave_coordinator_departures_total",
                 {{"reason", {"silent", "failed", "left", "expelled", "replaced"}}},
                 "Members that left the membership: silent for too long, failed by their own word, "
                 "left on purpose, expelled, or replaced by another process of the name."),
      CounterRow(
          "longwave_coordinator_losses_not_finite_total", {{"loss", {"training", "validation"}}},
          "Infinite or not-a-number losses that workers reported. Each one ends its worker."),
      CounterRow("longwave_coordinator_shard_restarts_total",
                 "Times that a new process took a shard's place."),
      GaugeRow("longwave_coordinator_replicas_unequal",
               "1 if the workers' replicas differed after the last finished round. 0 if they were "
               "equal, bit for bit, or if the run's method promises no equality (`sync.update: "
               "local`)."),
      CounterRow("longwave_coordinator_warnings_total", {{"of", {"run", "worker"}}},
                 "Warnings of workers about themselves, and of the coordinator about the run "
                 "(workers with the same data, for example), each counted once since the run "
                 "began. `longwave status` shows them."),
      CounterRow(
          "longwave_coordinator_repairs_total",
          "Replicas that the coordinator told to fetch segments again, since the run began."),
      GaugeRow("longwave_coordinator_stragglers",
               "Active members that are more than one round behind the foremost."),
      GaugeRow("longwave_coordinator_worker_rounds_behind", {Stat()},
               "Rounds that active members are behind the foremost."),
      GaugeRow("longwave_coordinator_worker_step_seconds", {Stat()},
               "Time of an inner step of each active member, without syncs, over its last five "
               "seconds or more."),
      GaugeRow("longwave_coordinator_worker_tokens_per_second", {Stat()},
               "Tokens a second of each active member, syncs included, over its last five seconds "
               "or more."),
      GaugeRow("longwave_coordinator_worker_compute_ratio", {Stat()},
               "Share of its time in which each active member computed, over its last five seconds "
               "or more."),
      GaugeRow("longwave_coordinator_worker_train_loss", {Stat()},
               "Training loss of each active member, the mean over the steps of its round."),
  };
}

Rows ServiceRows() {
  return {
      CounterRow("longwave_coordinator_calls_refused_total",
                 {{"reason",
                   {"invalid_argument", "already_exists", "failed_precondition", "unavailable",
                    "resource_exhausted", "not_found", "aborted"}}},
                 "Registrations and heartbeats that the coordinator refused, by status. A caller "
                 "repeats a call that was `unavailable`, which does no harm."),
      CounterRow("longwave_coordinator_peers_refused_total", {PeerRefusals()},
                 "Calls that the coordinator refused for their caller, with `security.mode` on "
                 "(docs/reference/security.md)."),
      CounterRow("longwave_coordinator_tokens_refused_total",
                 "Attempts to join that the coordinator refused for their token: unknown, used up, "
                 "expired, revoked, or for something else."),
      CounterRow(
          "longwave_coordinator_certificates_issued_total",
          "Certificates that the coordinator issued, to processes that join and for renewals."),
      HistogramRow("longwave_coordinator_save_seconds", ShortSeconds(),
                   "Time to make a decision durable."),
      CounterRow(
          "longwave_coordinator_save_failures_total",
          "Failed attempts to make decisions durable, on a disk that is full or fails, while the "
          "coordinator answers nobody; and failed attempts to write `metrics.jsonl`."),
  };
}

}  // namespace

Rows CoordinatorRows() { return Joined({RunRows(), MemberRows(), ServiceRows()}); }

}  // namespace longwave
