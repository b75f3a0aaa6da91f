"""Shards and durability: accepted pushes, merges, and the state that would survive a crash."""

from panels import *


def dashboard():
    disk = f'{s("shard_disk_free_bytes")} / {s("shard_disk_size_bytes")}'
    return board("shards", "Shards and durability",
                 "What shards take and merge, how long that takes, and what would survive a crash.", [
        row("How they stand"),
        number("Shards up", "Registered shards that are heard and take pushes.",
               target(s("coordinator_shards", 'state="up"')), limits=(RED, (1, GREEN)), width=4),
        number("Not up", "Shards that are silent, or in trouble: they take no pushes for now.",
               target(total(s("coordinator_shards", 'state=~"silent|troubled"'))),
               limits=(GREEN, (1, RED)), width=4),
        number("Refused pushes", "Pushes that were rejected, in the time that is shown. `busy`, `late` "
               "and `duplicate` are no refusals: the worker sends again, or with a later round.",
               target(f'sum(increase({s("shard_pushes_rejected_total")}[$__range]))'),
               limits=(GREEN, (1, RED)), width=4, decimals=0),
        number("Memory for open rounds", "Bytes of pushes to open rounds as a share of what shards may "
               "keep (`cluster.shard_memory_mb`); beyond it they answer `busy`. The fullest shard.",
               target(f'max({s("shard_open_bytes")} / {s("shard_memory_limit_bytes")})'),
               unit="percentunit", limits=(GREEN, (0.7, YELLOW), (0.95, RED)), width=4, decimals=1),
        number("Least disk free", "Share of the disk that a shard may still write to: the least.",
               target(f"min({disk})"), unit="percentunit", limits=(RED, (0.1, YELLOW), (0.3, GREEN)),
               width=4, decimals=1),
        number("Being restored", "Segments that are made again from the workers' replicas, since their "
               "shard has lost its folder.", target(total(s("shard_segments_restoring"))),
               limits=(GREEN, (1, YELLOW)), width=4),
        row("Pushes and merges"),
        lines("Pushes", "Pushes a second by the answer that they got. `late` ones go with a later round; "
              "many of them say that the grace is short for these links.",
              [target(total(rate(s("shard_pushes_total")), "outcome"), "{{outcome}}")], unit="cps",
              stacked=True, low=0, width=8),
        lines("Rejected pushes, by reason", "Pushes a second that were rejected, by what was wrong with "
              "them. Anything above 0 is worth a look at the shard's log.",
              [target(total(rate(s("shard_pushes_rejected_total")), "reason"), "{{reason}}")], unit="cps",
              limits=(GREEN, (0.01, RED)), low=0, width=8),
        lines("Open segments", "Segments with a push to their open round: between two rounds there are "
              "none.", [target(s("shard_open_segments"), "shard {{shard}}")], low=0, width=8),
        lines("Memory of open rounds", "Bytes of the pushes to open rounds in each shard's memory, and the "
              "limit from which on it answers `busy`.",
              [target(s("shard_open_bytes"), "shard {{shard}}"),
               target(f'min({s("shard_memory_limit_bytes")})', "limit")], unit="bytes", log=True,
              width=8),
        density("Time to close a segment", "From the first accepted push of its round to the close: the "
                "wait for the other members.", s("shard_close_seconds"), width=8),
        density("Time to merge a segment", "Time that the shard's thread took to close it: the merge and the "
                "shard's own quantization.", s("shard_merge_seconds"), width=8),
        lines("Merging", "Share of the time of each shard that went to merges. Near 1 the shard itself is "
              "what rounds wait for: more shards would help.",
              [target(rate(s("shard_merge_seconds_sum")), "shard {{shard}}")], unit="percentunit",
              limits=(GREEN, (0.5, YELLOW), (0.8, RED)), low=0, width=8),
        lines("Residual", "L2 norm of what each shard holds back for later rounds. It settles; one that "
              "keeps growing says that `sync.down` lets too little through.",
              [target(s("shard_residual_norm"), "shard {{shard}}")], low=0, width=8),
        lines("Silence of the coordinator", "Time since the coordinator has answered each shard.",
              [target(s("shard_coordinator_silence_seconds"), "shard {{shard}}"), lost_after()], unit="s",
              low=0, width=8),
        row("Durability"),
        lines("Log and snapshots", "Bytes of each shard's delta log and snapshots. The log falls when a "
              "snapshot of the parameters lets older rounds go.",
              [target(s("shard_log_bytes"), "shard {{shard}} log"),
               target(s("shard_snapshot_bytes"), "shard {{shard}} snapshots")], unit="bytes", low=0,
              width=8),
        lines("Age of the log's end", "Time since anything was made durable in each shard's log. While the "
              "run trains it goes back to 0 with every round.",
              [target(s("shard_log_age_seconds"), "shard {{shard}}")], unit="s", low=0, width=8),
        lines("Age of snapshots", "Time since each shard has written a snapshot, of the parameters "
              "(`model`) and of what it alone holds (`state`). Who comes back has this much to catch up "
              "with.", [target(s("shard_snapshot_age_seconds"), "shard {{shard}} {{kind}}")], unit="s",
              low=0, width=8),
        lines("Disk free", "Share of each shard's disk that it may still write to.",
              [target(disk, "shard {{shard}}")], unit="percentunit",
              limits=(RED, (0.1, YELLOW), (0.3, GREEN)), low=0, high=1, width=8),
        lines("Written to disk", "Bytes a second that each shard writes to its folder.",
              [target(rate(s("shard_disk_written_bytes_total")), "shard {{shard}}")], unit="Bps", low=0,
              width=8),
        lines("Time until it is durable", "95th percentile of the time until the disk had what was written "
              "(fsync): of the shards' logs, and of the coordinator's decisions. Every round waits for it.",
              [target(quantile(0.95, s("shard_sync_seconds"), "shard"), "shard {{shard}}"),
               target(quantile(0.95, s("coordinator_save_seconds")), "coordinator")], unit="s",
              limits=(GREEN, (0.5, YELLOW), (5, RED)), low=0, width=8),
        lines("Failures", "Writes of shards and decisions of the coordinator that the disk did not take, "
              "in each interval. A full disk shows here first.",
              [target(increase(s("shard_disk_failures_total")), "shard {{shard}}"),
               target(increase(s("coordinator_save_failures_total")), "coordinator")],
              limits=(GREEN, (1, RED)), low=0, width=12),
        lines("Trouble", "1 while a shard takes no pushes: a disk that is full or fails, a folder that it "
              "waits for.", [target(s("shard_troubled"), "shard {{shard}}")], unit="none",
              limits=(GREEN, (1, RED)), low=0, high=1, width=12),
    ], variables=(SHARD,))
