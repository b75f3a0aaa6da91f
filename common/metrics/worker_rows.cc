#include "common/metrics/metric_rows.h"

namespace longwave {
namespace {

Rows TrainingRows() {
  return {
      GaugeRow("longwave_worker_state",
               {{"state",
                 {"starting", "training", "syncing", "validating", "done", "failed", "joining"}}},
               "1 for what the worker does, 0 for the others."),
      GaugeRow("longwave_worker_ranks",
               "Processes of this worker, each with a device: 1, or those of its node."),
      GaugeRow("longwave_worker_train_loss",
               "Training loss, the mean over the steps of the round so far.",
               "once the loop has given one"),
      GaugeRow("longwave_worker_validation_loss", "The worker's last validation loss.",
               "on the worker that validates"),
      CounterRow("longwave_worker_steps_total", "Inner steps that the worker has taken."),
      CounterRow("longwave_worker_tokens_total", "Tokens that the worker has trained on."),
      GaugeRow("longwave_worker_round", "The round that the worker trains for, from 0."),
      CounterRow("longwave_worker_rounds_total", "Rounds that the worker has finished."),
      GaugeRow("longwave_worker_rounds_behind",
               "Rounds between the worker's own and the newest one that it knows to be open."),
      GaugeRow("longwave_worker_parameters", "Parameters of the model."),
      GaugeRow("longwave_worker_learning_rate",
               "Learning rate of the inner optimizer at the last step."),
      GaugeRow("longwave_worker_gradient_norm",
               "L2 norm of the last step's gradient before clipping.",
               "with `train.clip_norm` above 0"),
      HistogramRow("longwave_worker_step_seconds", ShortSeconds(), "Time of an inner step."),
      HistogramRow("longwave_worker_sync_seconds", LongSeconds(),
                   "Time that a sync of a fragment kept the worker from computing: encode, "
                   "checkpoint, send, journal, wait, decode and other."),
      CounterRow(
          "longwave_worker_phase_seconds_total",
          {{"phase",
            {"data", "forward_backward", "optimizer", "encode", "send", "journal", "wait", "decode",
             "validate", "checkpoint", "catch_up", "other"}}},
          "The worker's time by phase. data: making batches. forward_backward: both passes (what a "
          "GPU has queued shows where the worker waits for it). optimizer: its step and clipping. "
          "encode. send: handing payloads to the link, whose transfer is part of wait or of an "
          "overlap's steps. journal: until the payloads are on the disk. wait: for merged updates. "
          "decode: decoding and applying them, hashes included. validate. checkpoint. catch_up: "
          "catching up and repairs. other: what else keeps it from its inner steps."),
      HistogramRow("longwave_worker_meeting_seconds", ShortSeconds(),
                   "Time of a meeting of a node's ranks, after each inner step and again and again "
                   "while the worker waits: the link between the ranks, and the wait for the last "
                   "of them. No samples with one rank."),
      GaugeRow("longwave_worker_compute_ratio",
               "Share of computing in the time that the worker has computed and synced, including "
               "the times in its checkpoint."),
      GaugeRow("longwave_worker_gpu_memory_bytes", {{"state", {"free", "used"}}},
               "Memory of the worker's GPU, free or used by anybody. Both together are all of it. "
               "Of a node it is the sum over the ranks, of which each sees its own GPU.",
               "with CUDA"),
      CounterRow(
          "longwave_worker_model_flops_total",
          "Floating point operations of the model's forward and backward passes over the tokens "
          "that the worker has trained on: 6 for each weight of a matrix and token, and 12 · "
          "layers · width · context for a token's attention. 0 if `model.kind` is not `gpt`."),
      GaugeRow("longwave_worker_peak_flops",
               "Floating point operations a second that the worker's processor can do at most: "
               "`metrics.peak_tflops`, of each rank. The rate of longwave_worker_model_flops_total "
               "divided by this is the model FLOPs utilisation (MFU).",
               "where `metrics.peak_tflops` is given"),
      GaugeRow("longwave_worker_coordinator_silence_seconds",
               "Time since the coordinator last answered."),
      CounterRow("longwave_worker_warnings_total",
                 "Warnings that the worker has for the coordinator, each counted once. `longwave "
                 "status` shows them."),
  };
}

Rows SyncRows() {
  return {
      CounterRow(
          "longwave_worker_pushes_total", {{"fate", {"accepted", "late", "unknown"}}},
          "Contributions of segments by fate: `accepted` in their round's merge, `late` and back "
          "in the residual for a later one, or `unknown` to everybody (counted as accepted)."),
      CounterRow("longwave_worker_bytes_total", {PushedOrPulled()},
                 "Bytes that the worker has pushed and pulled, headers and framing included."),
      CounterRow("longwave_worker_payload_bytes_total", {PushedOrPulled()},
                 "Payload bytes that the worker has pushed and pulled."),
      CounterRow("longwave_worker_ddp_bytes_total",
                 "Bytes that DDP would have pushed: a gradient in fp32 for each of the worker's "
                 "steps. As many would have come back."),
      CounterRow("longwave_worker_diloco_bytes_total",
                 "Bytes that DiLoCo would have pushed: a pseudo-gradient in fp32 for each of the "
                 "worker's rounds. As many would have come back."),
      GaugeRow("longwave_worker_compression_ratio",
               "Bytes of the model in fp32, divided by the payload bytes that the last sync pushed "
               "for them."),
      GaugeRow("longwave_worker_signal_norm",
               "L2 norm of the signal of the last sync, over all segments."),
      GaugeRow("longwave_worker_momentum_norm",
               "L2 norm of the momentum of the last sync, before the sent values leave it."),
      GaugeRow("longwave_worker_sent_norm",
               "L2 norm of what the last sync sent, as the shard sees it."),
      GaugeRow("longwave_worker_update_norm", "L2 norm of the merged update of the last sync."),
      GaugeRow("longwave_worker_update_cosine",
               "Cosine between what the worker sent and the merged update, of one segment a sync, "
               "in turns. 1: all workers say the same. Around the root of 1/n: n workers say "
               "things of their own. 0 or less: the others pull elsewhere."),
      CounterRow("longwave_worker_catch_ups_total",
                 "Times that the worker has caught up with a run that was ahead."),
      CounterRow("longwave_worker_skipped_steps_total",
                 "Inner steps of the run that the worker has not taken because it was behind."),
      CounterRow("longwave_worker_repairs_total",
                 "Times that the worker has fetched segments again because its replica differed."),
      CounterRow("longwave_worker_snapshots_sent_total",
                 "Snapshots of segments that the worker has sent because shards asked for them."),
      CounterRow("longwave_worker_connections_renewed_total",
                 "Connections to shards that the worker has made anew because they had no answer."),
      CounterRow("longwave_worker_checkpoints_total", "Checkpoints that the worker has written."),
      CounterRow("longwave_worker_checkpoint_failures_total",
                 "Checkpoints that the worker's disk did not take."),
      GaugeRow("longwave_worker_checkpoint_age_seconds", "Time since the worker's last checkpoint.",
               "with a state folder, once there is one"),
  };
}

}  // namespace

Rows WorkerRows() { return Joined({TrainingRows(), SyncRows()}); }

}  // namespace longwave
