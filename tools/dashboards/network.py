"""Network: traffic on the links, its overhead, and refused or queued frames."""

from panels import *


def dashboard():
    pushed, pulled = 'direction="pushed"', 'direction="pulled"'
    return board("network", "Network",
                 "What goes over the links between workers and shards, beside what other methods send.", [
        row("The run"),
        number("Pushed", "Bytes a second that all workers together push to shards.",
               target(rate(s("coordinator_bytes_total", pushed))), unit="Bps", width=4, decimals=1),
        number("Pulled", "Bytes a second that all workers together pull from shards.",
               target(rate(s("coordinator_bytes_total", pulled))), unit="Bps", width=4, decimals=1),
        number("DDP would push", "Bytes a second that DDP would push for the same steps: a gradient in "
               "fp32 for each step and member.",
               target(rate(s("coordinator_ddp_bytes_total"))), unit="Bps", width=4, decimals=1),
        number("Compression", "Bytes of the model in fp32 by those that a sync pushes for it: the mean "
               "over the workers.", target(f'avg({s("worker_compression_ratio")})'),
               unit="suffix:×", width=4, decimals=0),
        number("Overhead", "Share of the pushed and pulled bytes that are not payload: headers, answers, "
               "ZeroMQ's framing.",
               target(f'1 - {total(s("coordinator_payload_bytes_total"))} / '
                      f'{total(s("coordinator_bytes_total"))}'),
               unit="percentunit", limits=(GREEN, (0.1, YELLOW)), width=4, decimals=1),
        number("Connections", "Connections of members to the shards that are shown.",
               target(total(s("shard_connections"))), width=4),
        lines("Rate, beside DDP and DiLoCo", "Bytes a second that all workers push, and that they would "
              "push with DDP and DiLoCo for the same steps and rounds. Each division of the scale is ten "
              "times the last.",
              [target(rate(s("coordinator_bytes_total", pushed)), "Longwave"),
               target(rate(s("coordinator_diloco_bytes_total")), "DiLoCo"),
               target(rate(s("coordinator_ddp_bytes_total")), "DDP")], unit="Bps", log=True),
        lines("Pushed and pulled", "Bytes a second of all workers together, headers and framing included. "
              "Rounds show as waves where one takes longer than a scrape's interval.",
              [target(rate(s("coordinator_bytes_total")), "{{direction}}")], unit="Bps", low=0),
        row("Workers"),
        lines("Pushed by each worker", "Bytes a second, headers and framing included.",
              [target(rate(s("worker_bytes_total", pushed)), "{{worker}}")], unit="Bps", low=0, width=8),
        lines("Pulled by each worker", "Bytes a second, headers and framing included. Who catches up pulls "
              "more.", [target(rate(s("worker_bytes_total", pulled)), "{{worker}}")], unit="Bps", low=0,
              width=8),
        lines("Time of a sync", "Time that a sync kept a worker from computing: encode, send, wait and "
              "decode. Median and 95th percentile over all workers.",
              [target(quantile(0.5, s("worker_sync_seconds")), "median"),
               target(quantile(0.95, s("worker_sync_seconds")), "95 %")], unit="s", low=0, width=8),
        row("Shards"),
        lines("Received, by kind", "Bytes a second at the data ports of the shards, by kind of frame.",
              [target(total(rate(s("shard_bytes_total", 'direction="received"')), "kind"), "{{kind}}")],
              unit="Bps", stacked=True, low=0, width=8),
        lines("Sent, by kind", "Bytes a second at the data ports of the shards, by kind of frame. `merged` "
              "are the updates of rounds, `snapshot` and `fetch` are for those who catch up.",
              [target(total(rate(s("shard_bytes_total", 'direction="sent"')), "kind"), "{{kind}}")],
              unit="Bps", stacked=True, low=0, width=8),
        lines("Frames", "Frames a second at the data port of each shard.",
              [target(total(rate(s("shard_frames_total")), "shard, direction"),
                      "shard {{shard}} {{direction}}")], unit="cps", low=0, width=8),
        lines("Waiting to be sent", "Bytes of frames that wait for their turn under "
              "`cluster.max_download_mbit`, or for a connection that is stuck.",
              [target(s("shard_queued_bytes"), "shard {{shard}}")], unit="bytes", low=0, width=8),
        lines("Frames that wait", "Frames of these, and those that could not be sent a second since their "
              "worker had gone; it asks again.",
              [target(s("shard_queued_frames"), "shard {{shard}} waiting"),
               target(rate(s("shard_frames_unsent_total")), "shard {{shard}} unsent a second")], low=0,
              width=8),
        lines("Refused", "Frames a second that were dropped, by what was wrong with them: a damaged header "
              "or payload, a sender that is no member, or one that names another worker.",
              [target(total(rate(s("shard_frames_refused_total")), "reason"), "{{reason}}")],
              unit="cps", limits=(GREEN, (0.1, RED)), low=0, width=8),
    ], variables=(WORKER, SHARD))
