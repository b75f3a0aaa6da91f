#include "common/metrics/metric_rows.h"

namespace longwave {
namespace {

Rows RoundRows() {
  return {
      CounterRow(
          "longwave_shard_pushes_total",
          {{"outcome",
            {"accepted", "duplicate", "late", "busy", "not_member", "compacted", "rejected"}}},
          "Pushes by the answer that they got, since this process began."),
      CounterRow("longwave_shard_pushes_rejected_total",
                 {{"reason", {"address", "round", "weight", "norm", "payload"}}},
                 "Rejected pushes by what was wrong: another run's or shard's, of a round that is "
                 "not open yet, a weight out of range, a norm that is not its payload's, a payload "
                 "that does not fit."),
      CounterRow("longwave_shard_frames_refused_total",
                 {{"reason", {"malformed", "stranger", "wrong_kind", "identity"}}},
                 "Frames of no use: their header or checksum does not verify, their sender is no "
                 "member (it is told so), only shards send such, or they name another worker than "
                 "the one their connection belongs to. Since this process began."),
      CounterRow("longwave_shard_connections_refused_total",
                 "Connections to the data port that were refused, with `security.mode` on: their "
                 "key is no member's, or they do not speak CURVE with the shard's key. Since this "
                 "process began."),
      CounterRow(
          "longwave_shard_peers_refused_total", {PeerRefusals()},
          "Calls of its gRPC service that were refused for who made them, with `security.mode` on "
          "(docs/security.md), since this process began."),
      CounterRow("longwave_shard_pushes_clipped_total",
                 "Contributions that were merged with less than their weight (`sync.clip`)."),
      CounterRow(
          "longwave_shard_pushes_left_out_total",
          "Those of them that were left out of the merge, since they would have been clipped "
          "to less than a thousandth; the log and `longwave status` name the worker. Since "
          "this process began."),
      GaugeRow("longwave_shard_round", "The oldest round that is open in any of its segments."),
      GaugeRow("longwave_shard_newest_round",
               "The newest round that is open in any of its segments."),
      GaugeRow("longwave_shard_epoch", "The membership's epoch that it knows."),
      GaugeRow("longwave_shard_members", "Members of that epoch."),
      GaugeRow("longwave_shard_segments", "Segments that are this shard's."),
      GaugeRow("longwave_shard_open_segments", "Segments with a push to their open round."),
      GaugeRow("longwave_shard_open_bytes",
               "Bytes of the pushes to open rounds that it keeps in memory."),
      GaugeRow("longwave_shard_memory_limit_bytes",
               "Bytes of such pushes from which on others are answered `busy` "
               "(`cluster.shard_memory_mb`)."),
      GaugeRow("longwave_shard_waited_for",
               "Members that its most lagging open segment waits for."),
      CounterRow("longwave_shard_segments_closed_total",
                 "Rounds of segments that were closed and merged, since this process began."),
      CounterRow("longwave_shard_segments_closed_by_quorum_total",
                 "Those that were closed without some who were waited for."),
      HistogramRow("longwave_shard_close_seconds", LongSeconds(),
                   "Time from the first accepted push of a segment's round to its close."),
      HistogramRow(
          "longwave_shard_merge_seconds", ShortSeconds(),
          "Time of the work on a segment's tiles when it closes: the merge, and the quantization "
          "of what goes down (where everything merged does, each of the two passes)."),
      GaugeRow("longwave_shard_residual_norm",
               "L2 norm of what the shard holds back for later rounds (E), of all its segments. "
               "Measured a segment at a time, each in its turn after closes, and so seldom that it "
               "takes a hundredth of the shard's time at most."),
  };
}

Rows TrafficRows() {
  return {
      CounterRow(
          "longwave_shard_bytes_total", {SentOrReceived(), FrameKinds()},
          "Bytes at the data port, headers and framing included, by kind of frame, since this "
          "process began."),
      CounterRow("longwave_shard_payload_bytes_total", {SentOrReceived(), FrameKinds()},
                 "The payloads of these alone."),
      CounterRow("longwave_shard_frames_total", {SentOrReceived(), FrameKinds()},
                 "Frames at the data port that verified, by kind, since this process began."),
      CounterRow("longwave_shard_frames_unsent_total",
                 "Frames that could not be sent, since their worker had gone; it asks again."),
      GaugeRow("longwave_shard_connections", "Connections of members."),
      GaugeRow("longwave_shard_queued_frames",
               "Frames that wait for their turn under `cluster.max_download_mbit`, or for a "
               "connection that is stuck."),
      GaugeRow("longwave_shard_queued_bytes", "Bytes of these."),
      GaugeRow("longwave_shard_coordinator_silence_seconds",
               "Time since the coordinator has answered."),
  };
}

Rows DiskRows() {
  constexpr std::string_view kOnlyDurable = "with a state folder";
  return {
      GaugeRow(
          "longwave_shard_troubled",
          "1 while it takes no pushes: a disk that is full or fails, a folder that it waits for."),
      GaugeRow("longwave_shard_segments_restoring",
               "Segments that are being made again from the workers' replicas."),
      GaugeRow("longwave_shard_log_bytes", "Bytes of its delta log.", kOnlyDurable),
      GaugeRow("longwave_shard_log_age_seconds",
               "Time since anything was made durable in its log (or since this process began).",
               kOnlyDurable),
      GaugeRow("longwave_shard_snapshot_bytes", "Bytes of its snapshots.", kOnlyDurable),
      GaugeRow("longwave_shard_snapshot_age_seconds", {{"kind", {"state", "model"}}},
               "Time since it has written a snapshot of what it alone holds (`state`), or of the "
               "parameters (`model`); since this process began, while it has written none. No "
               "`model` where the run's "
               "method has no use for one (sync.update: inner or local).",
               kOnlyDurable),
      CounterRow("longwave_shard_snapshots_written_total", {{"kind", {"state", "model"}}},
                 "Snapshots of segments that it has written, since this process began."),
      CounterRow("longwave_shard_disk_written_bytes_total",
                 "Bytes that it has written to its folder, since this process began."),
      HistogramRow("longwave_shard_sync_seconds", ShortSeconds(),
                   "Time until the disk had what was written (fsync)."),
      CounterRow("longwave_shard_disk_failures_total",
                 "Writes and syncs that failed, a full disk included, since this process began."),
      GaugeRow("longwave_shard_disk_free_bytes",
               "Bytes that it may still write to the disk that its folder is on.", kOnlyDurable),
      GaugeRow("longwave_shard_disk_size_bytes", "Bytes of that disk.", kOnlyDurable),
  };
}

}  // namespace

Rows ShardRows() { return Joined({RoundRows(), TrafficRows(), DiskRows()}); }

}  // namespace longwave
