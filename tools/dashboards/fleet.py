"""Fleet: all runs of the clusters and namespaces that are chosen."""

from panels import *


def of_run(function, series):
    """A value for each run: the curves of a process that moved are joined."""
    return f"{function} by ({RUN_LABELS}) ({series})"


def dashboard():
    finished = of_run("max", everywhere("coordinator_rounds_finished_total"))
    planned = of_run("max", everywhere("coordinator_rounds_planned"))
    seconds = of_run("max", everywhere("coordinator_training_seconds_total"))
    training = everywhere("coordinator_phase", 'phase="training"')
    name = "{{cluster}} {{namespace}} {{run}}"
    runs = f"sum by ({RUN_LABELS})"
    # The coordinator's series: one for each run.
    info = f"""max by ({RUN_LABELS}, preset, model) ({everywhere("run_info", 'shard=""', 'worker=""')})"""
    return board("fleet", "Fleet", "All runs: which of them train, how fast, and which want somebody to look.", [
        row("How they stand"),
        number("Runs that train", "Runs whose coordinator says that they train.", target(f"sum({training})"), width=4),
        number("Runs that wait", "Runs that wait for something beyond their rounds: for workers to begin with, a silent "
               "shard, a full disk.", target(f'sum({everywhere("coordinator_waiting")})'),
               limits=(GREEN, (1, ORANGE)), width=4),
        number("Runs that have failed", "Runs that have ended as failed, and whose coordinator is still there.",
               target(f'''sum({everywhere("coordinator_phase", 'phase="failed"')})'''), limits=(GREEN, (1, RED)),
               width=4),
        number("Members of all runs", "Workers that take part in rounds now, of all runs.",
               target(f'sum({everywhere("coordinator_members_active")})'), width=4),
        number("Tokens a second of all runs", "Tokens that all workers of all runs train on each second, over the last "
               "finished round of each.", target(f'sum({everywhere("coordinator_tokens_per_second")})'), width=4),
        number("Pushed by all runs", "Bytes a second that all workers of all runs push to their shards.",
               target(f'''sum({rate(everywhere("coordinator_bytes_total", 'direction="pushed"'))})'''), unit="Bps",
               width=4),
        alert_list("Alerts of all runs", "Alerts that fire, or will if it goes on so. Each leads to its runbook. Empty "
                   "where Grafana is not told of Prometheus' alerts, which its data source can be: the column of the "
                   "table below counts those in any case.", ['cluster=~"$cluster"', 'namespace=~"$namespace"']),
        grid("Runs", "Each run now; its name leads to its overview. A run of the same name in another namespace is "
             "another run. Its preset and model are those of its coordinator's configuration. Ranks are its members' "
             "processes, each with a device.", ["cluster", "namespace", "run"], [
                 ("Phase", f'{with_page(one_hot("coordinator_phase", "phase", PHASES, RUN_LABELS, everywhere))} '
                  f'* on ({RUN_LABELS}) group_left (preset, model) {info}', "none", PHASE_NAMES),
                 ("Alerts that fire", f'{runs} (ALERTS{{cluster=~"$cluster", namespace=~"$namespace", '
                  'alertstate="firing", alertname=~"Longwave.*"})', "none", (RED,)),
                 ("Done", f"{finished} / {planned}", "percentunit", None),
                 ("Time left", f"({planned} - {finished}) * {seconds} / ({finished} > 0)", "dtdurations", None),
                 ("Validation loss", of_run("max", everywhere("coordinator_validation_loss")), "none", None),
                 ("Members", of_run("max", everywhere("coordinator_members_active")), "none", (RED, (1, GREEN))),
                 ("Ranks", of_run("max", everywhere("coordinator_ranks")), "none", None),
                 ("Tokens a second", of_run("max", everywhere("coordinator_tokens_per_second")), "short", None),
                 ("Compute share", of_run("max", everywhere("coordinator_compute_ratio")), "percentunit",
                  (RED, (0.5, YELLOW), (0.8, GREEN))),
                 ("Since the last round", of_run("max", everywhere("coordinator_progress_age_seconds")), "s", None),
             ], TO_RUN, height=10),
        row("Over time"),
        lines("Training loss", "Of the last finished round of each run.",
              [target(of_run("max", everywhere("coordinator_train_loss")), name)], unit="none"),
        lines("Tokens a second", "Of all workers of each run, over each finished round.",
              [target(of_run("max", everywhere("coordinator_tokens_per_second")), name)], low=0),
        lines("Compute share", "Share of the workers' time in which they computed, of each run.",
              [target(of_run("max", everywhere("coordinator_compute_ratio")), name)], unit="percentunit",
              limits=(RED, (0.5, YELLOW), (0.8, GREEN)), low=0, high=1),
        lines("Members", "Workers that take part in the rounds of each run.",
              [target(of_run("max", everywhere("coordinator_members_active")), name)], low=0),
    ], of_a_run=False)
