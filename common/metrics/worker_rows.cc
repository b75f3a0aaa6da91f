#include "common/metrics/metric_rows.h"

namespace longwave {
namespace {

Rows TrainingRows() {
  return {
      GaugeRow("longwave_worker_state",
               {{"state",
                 {"starting", "training", "syncing", "validating", "done", "failed", "joining"}}},
               "1 for what it does, 0 for the others."),
      GaugeRow("longwave_worker_ranks",
               "Processes that are this worker, each with a device: 1, or those of its node."),
      GaugeRow("longwave_worker_train_loss",
               "Training loss, the mean over the steps of the round so far.",
               "once the loop has given one"),
      GaugeRow("longwave_worker_validation_loss", "Its last validation loss.",
               "on the worker that validates"),
      CounterRow("longwave_worker_steps_total",
                 "Inner steps that it has taken, since this process began."),
      CounterRow("longwave_worker_tokens_total",
                 "Tokens that it has trained on, since this process began."),
      GaugeRow("longwave_worker_round", "The round that it trains for, from 0."),
      CounterRow("longwave_worker_rounds_total",
                 "Rounds that it has finished, since this process began."),
      GaugeRow("longwave_worker_rounds_behind",
               "Rounds between its own and the newest that it has heard is open."),
      GaugeRow("longwave_worker_parameters", "Parameters of the model."),
      GaugeRow("longwave_worker_learning_rate",
               "Learning rate of the inner optimizer at the last step."),
      GaugeRow("longwave_worker_gradient_norm",
               "L2 norm of the last step's gradient before clipping.",
               "with `train.clip_norm` above 0"),
      HistogramRow("longwave_worker_step_seconds", ShortSeconds(), "Time of an inner step."),
      HistogramRow(
          "longwave_worker_sync_seconds", LongSeconds(),
          "Time that a sync of a fragment kept it from computing: encode, checkpoint, send, wait, "
          "decode and other."),
      CounterRow(
          "longwave_worker_phase_seconds_total",
          {{"phase",
            {"data", "forward_backward", "optimizer", "encode", "send", "wait", "decode",
             "validate", "checkpoint", "catch_up", "other"}}},
          "Its time, by what went on: making batches; forward and backward pass (on a GPU what is "
          "enqueued shows where it is waited for); optimizer and clipping; encoding; handing "
          "payloads to the link (their way out is part of `wait`, or of the steps of an overlap); "
          "waiting for merged updates; decoding and applying them, hashes included; validation; "
          "checkpoints; catching up and repairs; and what else keeps it from its inner steps "
          "(`other`). encode, checkpoint, send, wait, decode and other together are the time that "
          "it has synced. Since this process began."),
      HistogramRow(
          "longwave_worker_meeting_seconds", ShortSeconds(),
          "Time of a meeting of a node's ranks, after each inner step and again and again while "
          "the worker waits: the link between the ranks, and the wait for the last of them. No "
          "samples with one rank."),
      GaugeRow("longwave_worker_compute_ratio",
               "Share of computing in the time that it has computed and synced, those of its "
               "checkpoint included."),
      GaugeRow("longwave_worker_gpu_memory_bytes", {{"state", {"free", "used"}}},
               "Memory of its GPU, free or used by anybody; both together are all of it. Of a node "
               "it is the sum over the ranks, of which each sees its own GPU.",
               "with CUDA"),
      CounterRow(
          "longwave_worker_model_flops_total",
          "Floating point operations of the model's forward and backward passes over the tokens "
          "that it has trained on, since this process began: 6 for each weight of a matrix and "
          "token, and 12 · layers · width · context for a token's attention. 0 with a `model.kind` "
          "but gpt, whose operations are not counted."),
      GaugeRow("longwave_worker_peak_flops",
               "Floating point operations a second that its processor can do at most: "
               "`metrics.peak_tflops`, of each rank. The rate of those of the model by it is the "
               "model FLOPs utilisation (MFU).",
               "where `metrics.peak_tflops` is given"),
      GaugeRow("longwave_worker_coordinator_silence_seconds",
               "Time since the coordinator has answered."),
      CounterRow("longwave_worker_warnings_total",
                 "Warnings that it has for the coordinator, each counted once since this process "
                 "began; `longwave status` shows them."),
  };
}

Rows SyncRows() {
  return {
      CounterRow(
          "longwave_worker_pushes_total", {{"fate", {"accepted", "late", "unknown"}}},
          "Contributions of segments by what became of them: in their round's merge, back in "
          "the residual for a later one, or known to nobody (counted as accepted). Since this "
          "process began."),
      CounterRow("longwave_worker_bytes_total", {PushedOrPulled()},
                 "Bytes that it has pushed and pulled, headers and framing included, since this "
                 "process began."),
      CounterRow("longwave_worker_payload_bytes_total", {PushedOrPulled()},
                 "The payloads of these alone."),
      CounterRow("longwave_worker_ddp_bytes_total",
                 "Bytes that DDP would have pushed: a gradient in fp32 for each of its steps since "
                 "this process began. As much again would have come back."),
      CounterRow("longwave_worker_diloco_bytes_total",
                 "Bytes that DiLoCo would have pushed: a pseudo-gradient in fp32 for each of its "
                 "rounds since this process began. As much again would have come back."),
      GaugeRow(
          "longwave_worker_compression_ratio",
          "Bytes of the model in fp32 by those of the payloads that its last sync has pushed for "
          "them."),
      GaugeRow("longwave_worker_signal_norm",
               "L2 norm of the signal of the last sync, over all segments."),
      GaugeRow("longwave_worker_momentum_norm",
               "L2 norm of the momentum of the last sync, before what is sent leaves it."),
      GaugeRow("longwave_worker_sent_norm",
               "L2 norm of what the last sync has sent, as the shard sees it."),
      GaugeRow("longwave_worker_update_norm", "L2 norm of the merged update of the last sync."),
      GaugeRow(
          "longwave_worker_update_cosine",
          "Cosine between what it has sent and the merged update, of one segment a sync, each in "
          "its turn: 1 where all workers say the same, around the root of 1/n where n of them "
          "say things of their own, 0 or less where the others pull elsewhere."),
      CounterRow(
          "longwave_worker_catch_ups_total",
          "Times that it has caught up with a run that was ahead, since this process began."),
      CounterRow("longwave_worker_skipped_steps_total",
                 "Inner steps of the run that it has not taken because it was behind, since this "
                 "process began."),
      CounterRow("longwave_worker_repairs_total",
                 "Times that it has fetched segments anew because its replica differed, since this "
                 "process began."),
      CounterRow("longwave_worker_snapshots_sent_total",
                 "Snapshots of segments that shards have asked it for, since this process began."),
      CounterRow("longwave_worker_connections_renewed_total",
                 "Connections to shards that it has made anew because they had no answer, since "
                 "this process began."),
      CounterRow("longwave_worker_checkpoints_total",
                 "Checkpoints that it has written, since this process began."),
      CounterRow("longwave_worker_checkpoint_failures_total",
                 "Checkpoints that its disk did not take, since this process began."),
      GaugeRow("longwave_worker_checkpoint_age_seconds", "Time since its last checkpoint.",
               "with a state folder, once there is one"),
  };
}

}  // namespace

Rows WorkerRows() { return Joined({TrainingRows(), SyncRows()}); }

}  // namespace longwave
