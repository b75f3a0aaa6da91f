"""Run overview: does it learn, how fast, and what would DDP have cost?"""

from panels import *

PUSHED = 'direction="pushed"'


def dashboard():
    finished = s("coordinator_rounds_finished_total")
    planned = s("coordinator_rounds_planned")
    seconds = s("coordinator_training_seconds_total")
    return board("overview", "Run overview",
                 "Whether a run learns, how fast, and what it sends beside what DDP and DiLoCo would.", [
        row("How it stands"),
        number("Phase", "The run's phase: it waits for its members, trains, or has ended.",
               target(one_hot("coordinator_phase", "phase", PHASES)), unit="none", names=PHASE_NAMES,
               spark=False),
        number("Done", "Finished rounds as a share of those that are planned.",
               target(f"{finished} / {planned}"), unit="percentunit", decimals=1),
        number("Time left", "Time for the rest of the run at the pace so far, as `longwave status` says it.",
               target(f"({planned} - {finished}) * {seconds} / ({finished} > 0)"), unit="dtdurations"),
        number("Validation loss", "The last validation loss, over the validation batches of the run.",
               target(s("coordinator_validation_loss")), unit="none", decimals=3),
        number("Tokens a second", "Tokens that all workers together train on each second, over the last "
               "finished round, syncs included.", target(s("coordinator_tokens_per_second"))),
        number("Compute share", "Share of the workers' time in which they computed, over the last "
               "finished round. The rest went to syncs.", target(s("coordinator_compute_ratio")),
               unit="percentunit", limits=(RED, (0.5, YELLOW), (0.8, GREEN)), decimals=1),
        number("Members", "Workers that take part in rounds now.",
               target(s("coordinator_members_active")), limits=(RED, (1, GREEN))),
        number("Replicas", "Whether all workers held the same parameters, bit for bit, after the last "
               "finished round.", target(s("coordinator_replicas_unequal")), unit="none",
               names=[("equal", GREEN), ("unequal", RED)], spark=False),
        alert_list("Alerts", "Alerts of this run that fire, or will if it goes on so. Each leads to its runbook. Empty "
                   "where Grafana is not told of Prometheus' alerts, which its data source can be.", RUN_CHOSEN, height=4),
        row("Does it learn?"),
        lines("Loss", "Training loss: the mean over the members of the last finished round. Validation "
              "loss: the last that was measured. Both should fall; validation loss that rises while "
              "training loss falls says that the model learns its data by heart.",
              [target(s("coordinator_train_loss"), "training"),
               target(s("coordinator_validation_loss"), "validation")], unit="none"),
        lines("Training loss of the workers", "How the workers' own losses spread: the least, the median "
              "and the greatest. A worker far from the others has other data, or something is wrong with "
              "it.",
              [target(s("coordinator_worker_train_loss", 'stat=~"min|p50|max"'), "{{stat}}")],
              unit="none"),
        row("How fast?"),
        lines("Tokens a second over time", "Tokens that all workers together train on each second, over each "
              "finished round.", [target(s("coordinator_tokens_per_second"), "all workers")], low=0,
              width=8),
        lines("Time of a round", "Mean time between the ends of two rounds, and how long it has been "
              "since the last one. A line that climbs without coming back is a run that stands.",
              [target(mean(s("coordinator_round_seconds")), "mean"),
               target(s("coordinator_progress_age_seconds"), "since the last")], unit="s", low=0,
              width=8),
        lines("Compute share over time", "Share of the workers' time in which they computed, over each "
              "finished round. It falls when links are slow for what is sent, or when somebody is waited for.",
              [target(s("coordinator_compute_ratio"), "all workers")], unit="percentunit",
              limits=(RED, (0.5, YELLOW), (0.8, GREEN)), low=0, high=1, width=8),
        row("What would DDP have cost?"),
        number("Pushed so far", "Bytes that all workers have pushed to shards since the run began, "
               "headers and framing included.", target(s("coordinator_bytes_total", PUSHED)),
               unit="decbytes", width=4, decimals=2),
        number("DDP would have pushed", "Bytes of a gradient in fp32, for each step and member.",
               target(s("coordinator_ddp_bytes_total")), unit="decbytes", width=4, decimals=2),
        number("DiLoCo would have pushed", "Bytes of a pseudo-gradient in fp32, for each round and "
               "member.", target(s("coordinator_diloco_bytes_total")), unit="decbytes", width=4,
               decimals=2),
        number("Less than DDP", "How many times as much DDP would have pushed.",
               target(f'{s("coordinator_ddp_bytes_total")} / ignoring (direction) '
                      f'{s("coordinator_bytes_total", PUSHED)}'), unit="suffix:×", width=4, decimals=0),
        number("Less than DiLoCo", "How many times as much DiLoCo would have pushed.",
               target(f'{s("coordinator_diloco_bytes_total")} / ignoring (direction) '
                      f'{s("coordinator_bytes_total", PUSHED)}'), unit="suffix:×", width=4, decimals=0),
        number("Bytes a token", "Bytes pushed for each token that was trained on.",
               target(f'{s("coordinator_bytes_total", PUSHED)} / ignoring (direction) '
                      f'{s("coordinator_tokens_total")}'), unit="decbytes", width=4, decimals=2),
        lines("Bytes pushed since the run began", "Bytes that all workers have pushed, beside those that "
              "they would have pushed with DDP and DiLoCo. Each division of the scale is ten times the last.",
              [target(s("coordinator_bytes_total", PUSHED), "Longwave"),
               target(s("coordinator_ddp_bytes_total"), "DDP"),
               target(s("coordinator_diloco_bytes_total"), "DiLoCo")], unit="decbytes", log=True),
        lines("Members by what they do", "Workers by what they do. `lost` was silent for too long, `joining` "
              "catches up before it takes part.",
              [target(s("coordinator_members"), "{{state}}")], stacked=True, low=0),
    ])
