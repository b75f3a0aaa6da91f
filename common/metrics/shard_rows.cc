#include "common/metrics/metric_rows.h"

namespace longwave {
namespace {

Rows RoundRows() {
  return {
      CounterRow(
          "longwave_shard_pushes_total",
          {{"outcome",
            {"accepted", "duplicate", "late", "busy", "not_member", "compacted", "rejected"}}},
          "Pushes by the shard's answer."),
      CounterRow("longwave_shard_pushes_rejected_total",
                 {{"reason", {"address", "round", "weight", "norm", "payload"}}},
                 "Rejected pushes by what was wrong: of another run or shard, of a round that is "
                 "not open yet, a weight out of range, a norm that is not the payload's, a payload "
                 "that does not fit."),
      CounterRow("longwave_shard_frames_refused_total",
                 {{"reason", {"malformed", "stranger", "wrong_kind", "identity"}}},
                 "Frames that the shard dropped: their header or checksum does not verify, their "
                 "sender is no member (the shard tells it so), only shards send such, or they name "
                 "another worker than the one their connection belongs to."),
      CounterRow("longwave_shard_connections_refused_total",
                 "Connections to the data port that the shard refused, with `security.mode` on: "
                 "their key is no member's, or they do not speak CURVE with the shard's key."),
      CounterRow("longwave_shard_peers_refused_total", {PeerRefusals()},
                 "Calls of its gRPC service that the shard refused for their caller, with "
                 "`security.mode` on (docs/reference/security.md)."),
      CounterRow("longwave_shard_pushes_clipped_total",
                 "Contributions that were merged with less than their weight (`sync.clip`)."),
      CounterRow(
          "longwave_shard_pushes_left_out_total",
          "Clipped contributions that were left out of the merge, since they would have been "
          "clipped to less than a thousandth. The log and `longwave status` name the worker."),
      GaugeRow("longwave_shard_round", "The oldest open round of any of its segments."),
      GaugeRow("longwave_shard_newest_round", "The newest open round of any of its segments."),
      GaugeRow("longwave_shard_epoch", "The membership's epoch that the shard knows."),
      GaugeRow("longwave_shard_members", "Members of that epoch."),
      GaugeRow("longwave_shard_segments", "Segments that are this shard's."),
      GaugeRow("longwave_shard_open_segments", "Segments with a push to their open round."),
      GaugeRow("longwave_shard_open_bytes",
               "Bytes of pushes to open rounds that the shard keeps in memory."),
      GaugeRow("longwave_shard_memory_limit_bytes",
               "Bytes of pushes to open rounds beyond which the shard answers further pushes with "
               "`busy` (`cluster.shard_memory_mb`)."),
      GaugeRow("longwave_shard_waited_for",
               "Members that its most lagging open segment waits for."),
      CounterRow("longwave_shard_segments_closed_total",
                 "Rounds of segments that were closed and merged."),
      CounterRow(
          "longwave_shard_segments_closed_by_quorum_total",
          "Rounds of segments that were closed without some of the members that they waited for."),
      HistogramRow("longwave_shard_close_seconds", LongSeconds(),
                   "Time from the first accepted push of a segment's round to its close."),
      HistogramRow(
          "longwave_shard_merge_seconds", ShortSeconds(),
          "Time of the work on a segment's tiles when it closes: the merge, and the quantization "
          "of the merged update (where everything merged is sent down, each of the two passes)."),
      GaugeRow(
          "longwave_shard_residual_norm",
          "L2 norm of what the shard holds back for later rounds (E), over all its segments. The "
          "shard measures one segment at a time after closes, in a hundredth of its time at most."),
  };
}

Rows TrafficRows() {
  return {
      CounterRow("longwave_shard_bytes_total", {SentOrReceived(), FrameKinds()},
                 "Bytes at the data port by kind of frame, headers and framing included."),
      CounterRow("longwave_shard_payload_bytes_total", {SentOrReceived(), FrameKinds()},
                 "Payload bytes at the data port by kind of frame."),
      CounterRow("longwave_shard_frames_total", {SentOrReceived(), FrameKinds()},
                 "Frames at the data port that verified, by kind."),
      CounterRow("longwave_shard_frames_unsent_total",
                 "Frames that the shard could not send, since their worker had gone. The worker "
                 "asks again."),
      GaugeRow("longwave_shard_connections", "Connections of members."),
      GaugeRow("longwave_shard_queued_frames",
               "Frames that wait for their turn under `cluster.max_download_mbit`, or for a "
               "connection that is stuck."),
      GaugeRow("longwave_shard_queued_bytes", "Bytes of the frames that wait."),
      GaugeRow("longwave_shard_coordinator_silence_seconds",
               "Time since the coordinator last answered."),
  };
}

Rows DiskRows() {
  constexpr std::string_view kOnlyDurable = "with a state folder";
  return {
      GaugeRow("longwave_shard_troubled",
               "1 while the shard takes no pushes: its disk is full or fails, or it waits for its "
               "folder."),
      GaugeRow("longwave_shard_segments_restoring",
               "Segments that the shard makes again from the workers' replicas."),
      GaugeRow("longwave_shard_log_bytes", "Bytes of its delta log.", kOnlyDurable),
      GaugeRow("longwave_shard_log_age_seconds",
               "Time since the shard last made anything durable in its log, or since this process "
               "began.",
               kOnlyDurable),
      GaugeRow("longwave_shard_snapshot_bytes", "Bytes of its snapshots.", kOnlyDurable),
      GaugeRow("longwave_shard_snapshot_age_seconds", {{"kind", {"state", "model"}}},
               "Time since the shard last wrote a snapshot of what it alone holds (`state`) or of "
               "the parameters (`model`), or since this process began. There is no `model` if the "
               "run's method has no use for one (`sync.update: inner` or `local`).",
               kOnlyDurable),
      CounterRow("longwave_shard_snapshots_written_total", {{"kind", {"state", "model"}}},
                 "Snapshots of segments that the shard has written."),
      CounterRow("longwave_shard_disk_written_bytes_total",
                 "Bytes that the shard has written to its folder."),
      HistogramRow("longwave_shard_sync_seconds", ShortSeconds(),
                   "Time until the disk had what the shard wrote (fsync)."),
      CounterRow("longwave_shard_disk_failures_total",
                 "Writes and syncs that failed, a full disk included."),
      GaugeRow("longwave_shard_disk_free_bytes",
               "Bytes that the shard may still write to the disk of its folder.", kOnlyDurable),
      GaugeRow("longwave_shard_disk_size_bytes", "Size of the disk of its folder.", kOnlyDurable),
  };
}

}  // namespace

Rows ShardRows() { return Joined({RoundRows(), TrafficRows(), DiskRows()}); }

}  // namespace longwave
