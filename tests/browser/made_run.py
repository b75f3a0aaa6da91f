"""A run folder of any size, as `longwave up` would leave it."""

import json
import math


def make_run(folder, rounds=40, workers=4, name="made", preset="longwave", **settings):
    """Returns the run's records, a dict for each round."""
    run = folder / name
    (run / "logs").mkdir(parents=True)
    (run / "config.yaml").write_text(
        f"run: {{preset: {preset}, workers: {workers}, steps: {30 * rounds}}}\nsync: {{inner_steps: 30}}\n", encoding="utf-8")
    records = [{
        "round": r, "step": 30 * (r + 1), "train_loss": 2 + 3 * math.exp(-8 * r / rounds), "tokens": 7680 * (r + 1),
        "validation_loss": 2.1 + 3 * math.exp(-8 * r / rounds) if r % 5 == 4 else None, "tokens_per_second": 1000.0,
        "seconds": 7.5 * (r + 1), "bytes_pushed": 40_000 * workers * (r + 1), "bytes_pulled": 120_000 * workers * (r + 1),
        "payload_bytes_pushed": 0, "payload_bytes_pulled": 0, "replicas_equal": True, "state_hash": "00000000000000aa",
        "members": workers, "compute_share": 0.9 + 0.05 * math.sin(r),
    } for r in range(rounds)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    (run / "sample.txt").write_text("To be <i>or\nnot", encoding="utf-8")
    (run / "summary.json").write_text(json.dumps({
        "outcome": "finished", "failure": "", "params": 1_000_000, "workers": workers, "shards": 2, "replicas_equal": True,
        "state_hash": "00000000000000aa", "train_loss": records[-1]["train_loss"], "val_loss": records[-1]["validation_loss"],
        "repairs": 0, "restarts": 1, "warnings": ["worker-0: no seed <b>bold</b>"],
        **settings}), encoding="utf-8")

    def when(r):
        seconds = 7.5 * (r + 1)
        return f"2026-11-{1 + int(seconds // 86400):02d} {int(seconds // 3600) % 24:02d}:{int(seconds // 60) % 60:02d}:" \
               f"{seconds % 60:06.3f}Z"

    for worker in range(workers):
        (run / f"logs/worker-{worker}.log").write_text("".join(
            f"{when(r)} worker-{worker} info round {r + 1}/{rounds}  step {30 * (r + 1)}/{30 * rounds}  loss 2.500\n"
            f"{when(r)} worker-{worker} info computed for {6.5 + 0.1 * worker:.2f} s, synced for {1 - 0.1 * worker / workers:.2f} s: "
            "encoding 0.20, checkpoint 0.10, sending 0.00, waiting 0.50, decoding 0.10, other 0.10\n"
            for r in range(rounds)), encoding="utf-8")
    (run / "logs/coordinator.log").write_text("".join(
        f"{when(r)} coordinator {'warning' if r % 10 == 9 else 'info'} worker {r % workers} (worker-{r % workers}) was not heard "
        "for 8.0 s, wanted a heartbeat within 8.0 s; epoch 2 goes on with 3 workers\n" for r in range(rounds)), encoding="utf-8")
    return records
