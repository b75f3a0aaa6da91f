"""Rounds and stragglers: how long rounds take, and which members they wait for, gain and lose."""

from panels import *

STATS = 'stat=~"min|p50|p90|max"'


def dashboard():
    return board("rounds", "Rounds and stragglers",
                 "How long rounds take and why: who is slow, who is waited for, who comes and goes.", [
        row("Rounds"),
        number("Round", "The oldest round that is not finished, counted from 0.",
               target(s("coordinator_round")), width=4),
        number("Rounds an hour", "Finished rounds, at the pace of the last minutes.",
               target(f'3600 * {rate(s("coordinator_rounds_finished_total"))}'), width=4, decimals=0),
        number("Since the last round", "Time since a round was finished; while the run trains, this should "
               "go back to 0 every round.", target(s("coordinator_progress_age_seconds")), unit="s",
               width=4),
        number("Stragglers", "Active members that are more than one round behind the foremost.",
               target(s("coordinator_stragglers")), limits=(GREEN, (1, YELLOW)), width=4),
        number("Waits", "Whether the run waits for something beyond its rounds: a silent shard, a full "
               "disk, members. `longwave status` says for what.",
               target(s("coordinator_waiting")), unit="none", names=[("no", GREEN), ("yes", ORANGE)],
               spark=False, width=4),
        number("Closed by quorum", "Share of the segments that were closed without some of the members, "
               "over the last minutes. What these send goes with a later round.",
               target(f'{total(rate(s("shard_segments_closed_by_quorum_total")))} / '
                      f'{total(rate(s("shard_segments_closed_total")))}'), unit="percentunit",
               limits=(GREEN, (0.05, YELLOW), (0.25, RED)), width=4, decimals=1),
        density("Time between the ends of two rounds", "How rounds were spread over durations: a second "
                "band above the first is rounds that waited for somebody.",
                s("coordinator_round_seconds")),
        lines("Time of a round", "Median, 95th percentile and mean of a round's time.",
              [target(quantile(0.5, s("coordinator_round_seconds")), "median"),
               target(quantile(0.95, s("coordinator_round_seconds")), "95 %"),
               target(mean(s("coordinator_round_seconds")), "mean")], unit="s", low=0),
        row("Who is slow"),
        lines("Rounds behind the foremost", "How far active members are behind the one that is furthest. "
              "More than one is a straggler.",
              [target(s("coordinator_worker_rounds_behind", STATS), "{{stat}}")],
              limits=(GREEN, (1, YELLOW)), low=0, width=8),
        lines("Time of an inner step", "Of each active member, without syncs: the least, the median, the "
              "slowest tenth and the greatest. A wide gap is a machine that is slower than the others.",
              [target(s("coordinator_worker_step_seconds", STATS), "{{stat}}")], unit="s", low=0,
              width=8),
        lines("Tokens a second of a worker", "Of each active member, syncs included.",
              [target(s("coordinator_worker_tokens_per_second", STATS), "{{stat}}")], low=0, width=8),
        lines("Compute share of a worker", "Share of its time in which each active member computed. The "
              "least is who waits longest, which is seldom who is slow.",
              [target(s("coordinator_worker_compute_ratio", STATS), "{{stat}}")], unit="percentunit",
              low=0, high=1, width=8),
        lines("Members waited for", "Members whose push the most lagging segment of each shard waits for.",
              [target(s("shard_waited_for"), "shard {{shard}}")], low=0, width=8),
        lines("First push to close", "Time from the first accepted push of a segment's round to its close, "
              "95th percentile of each shard: how long the last member lets the first one wait.",
              [target(quantile(0.95, s("shard_close_seconds"), "shard"), "shard {{shard}}")], unit="s",
              low=0, width=8),
        grid("Workers", "Each worker now: who is behind, and by what. Time of a step is the mean over the "
             "last minutes, without syncs; time of a sync is what it kept the worker from computing.",
             ["worker"], [
                 ("Round", total(s("worker_round"), "worker"), "none", None),
                 ("Behind", total(s("worker_rounds_behind"), "worker"), "none", (GREEN, (2, YELLOW))),
                 ("Step", mean(s("worker_step_seconds"), "worker"), "s", None),
                 ("Sync", mean(s("worker_sync_seconds"), "worker"), "s", None),
                 ("Compute share", total(s("worker_compute_ratio"), "worker"), "percentunit",
                  (RED, (0.5, YELLOW), (0.8, GREEN))),
                 ("Coordinator silent", total(s("worker_coordinator_silence_seconds"), "worker"), "s", None),
             ], TO_WORKER),
        row("Who comes and goes"),
        lines("Joins and departures", "Workers that became members, and those that are none any more, in "
              "each interval.",
              [target(total(increase(s("coordinator_joins_total")), "how"), "joined: {{how}}"),
               target(total(increase(s("coordinator_departures_total")), "reason"), "gone: {{reason}}"),
               target(increase(s("coordinator_shard_restarts_total")), "a shard's new process")],
              stacked=True, low=0, width=8),
        lines("Age of the last heartbeat", "Time since members and shards were last heard: the greatest. "
              "A member that is silent for longer than the limit counts as lost.",
              [target(s("coordinator_heartbeat_age_seconds", 'stat="max"'), "workers"),
               target(s("coordinator_shard_heartbeat_age_seconds", 'stat="max"'), "shards"), lost_after()],
              unit="s", low=0, width=8),
        lines("Epoch", "The epoch of the membership as the coordinator and the shards know it: it grows "
              "with every change, and they should agree within moments.",
              [target(s("coordinator_epoch"), "coordinator"),
               target(s("shard_epoch"), "shard {{shard}}")], unit="none", width=8),
    ], variables=(WORKER, SHARD))
