#!/usr/bin/env python3
"""Holds what `bench_shard --json` writes against what it must hold: never the speed.

    check_figures.py try BENCH_SHARD        a small run of it, its figures, and what it refuses
    check_figures.py file FIGURES.json   figures of any run of the default settings

The standard library is enough.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
import formulae  # noqa: E402

SERVED = ["seconds", "processor_seconds", "generator_processor_seconds", "rounds", "pushes",
          "payload_bytes_in", "payload_bytes_out", "payload_gb_per_s_in", "payload_gb_per_s_out",
          "payload_gb_per_processor_second", "close_ms_p50", "close_ms_p99"]
RUN = ["merged_coefficients_per_second", "merged_coefficients_per_processor_second",
       "merge_alone_coefficients_per_second", "processor_microseconds_per_push",
       "resident_bytes_max"]
CORRECT = ["all_workers_got_the_same", "merge_recomputed", "bytes_counted_alike"]
HEADER_BYTES = 64
UP_PER_PARAMETER, DOWN_PER_PARAMETER, TOLERANCE = 0.0181, 0.063, 0.03


class Failure(Exception):
    """Ends the program with one sentence."""


def expect(what, got, wanted):
    if got != wanted:
        raise Failure(f"{what}: got {got!r}, wanted {wanted!r}")


def framed(payload_bytes):
    """A frame on the wire: header and payload with their ZMTP framing."""
    return HEADER_BYTES + 2 + (payload_bytes + (9 if payload_bytes > 255 else 2) if payload_bytes else 0)


def check_run(figures, run):
    parameters, workers, segments = figures["parameters"], run["workers"], run["segments"]
    shard, rounds = run["shard"], run["shard"]["rounds"]
    expect("parameters", run["parameters"], parameters)
    for served in [shard] + ([run["raw_zmq"]] if run["raw_zmq"] else []):
        for field in SERVED:
            if not served[field] > 0:
                raise Failure(f"{field}: got {served[field]}, wanted more than 0")
        if served["close_ms_p50"] > served["close_ms_p99"]:
            raise Failure("half of the segments took longer to close than 99 of 100")
    for field in RUN:
        if not run[field] > 0:
            raise Failure(f"{field}: got {run[field]}, wanted more than 0")
    for flag in CORRECT:
        expect(flag, run["correct"][flag], True)
    expect("pushes_refused", run["pushes_refused"], 0)
    expect("pushes_accepted", run["pushes_accepted"], workers * segments * rounds)
    expect("coefficients", run["coefficients_per_worker_and_round"],
           formulae.ceil_divide(parameters, formulae.TILE) * figures["k"])

    tiles = formulae.ceil_divide(parameters, formulae.TILE)
    sizes = formulae.segment_sizes(tiles, 256, figures["shards"])
    expect("segments", segments, len(sizes))
    up = [formulae.payload_bytes(size, "topk", figures["k"], "sign") for size in sizes]
    down = [formulae.payload_bytes(size, "topk", 256, "int2") for size in sizes]
    times = workers * rounds
    expect("payload bytes in", shard["payload_bytes_in"], times * sum(up))
    expect("payload bytes out", shard["payload_bytes_out"], times * sum(down))
    counted = run["counted_by_shards"]
    expect("bytes received", counted["bytes_received"], times * sum(map(framed, up)))
    expect("bytes sent", counted["bytes_sent"],
           times * (sum(map(framed, down)) + segments * framed(0)))
    expect("segments closed", counted["segments_closed"], segments * rounds)
    per = run["bytes_per_parameter_and_round"]
    for field, wanted in (("payload_up", UP_PER_PARAMETER), ("payload_down", DOWN_PER_PARAMETER),
                          ("socket_up", UP_PER_PARAMETER), ("socket_down", DOWN_PER_PARAMETER)):
        if abs(per[field] / wanted - 1) > TOLERANCE:
            raise Failure(f"{field}, {workers} workers: got {per[field]}, wanted {wanted} within "
                          f"{TOLERANCE:.0%}")


def check(path):
    figures = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    expect("bench", figures["bench"], "shard")
    expect("correct", figures["correct"], True)
    if not figures["runs"]:
        raise Failure("no runs")
    for run in figures["runs"]:
        check_run(figures, run)
    for bar in figures["bars"]:
        if bar["value"] is None:
            expect(bar["what"], bar["verdict"], "not measured")
            if not bar["reason"]:
                raise Failure(f"{bar['what']}: not measured, and no reason")
        else:
            over = bar["value"] > bar["wanted"]
            met = bar["value"] == bar["wanted"] or over != bar["at_most"]
            expect(bar["what"], bar["verdict"], "met" if met else "not met")
    return figures


def bench(program, *arguments):
    return subprocess.run([program, *arguments], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def attempt(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "shard.json"

        def measured(*arguments):
            done = bench(program, *arguments, "--json", path)
            if done.returncode != 0:
                raise Failure(f"{' '.join(arguments)}: status {done.returncode}, {done.stderr!r}")
            return check(path)

        figures = measured("--workers", "8", "--params", "1000000", "--rounds", "3")
        expect("rounds", figures["runs"][0]["shard"]["rounds"], 3)
        expect("raw_zmq beside it", figures["runs"][0]["raw_zmq"]["rounds"], 3)

        # Wrong figures must be told from right ones, or the checks above say nothing.
        text = path.read_text(encoding="utf-8")
        for right, wrong in (('"merge_recomputed": true', '"merge_recomputed": false'),
                             ('"k": 64', '"k": 32'), ('"rounds": 3', '"rounds": 2'),
                             ('"verdict": "met"', '"verdict": "not met"')):
            expect(f"{right} in the figures", right in text, True)
            path.write_text(text.replace(right, wrong), encoding="utf-8")
            try:
                check(path)
            except Failure:
                continue
            raise Failure(f"{wrong} was taken for right")

        # Segments on two shards that keep state, workers on two threads, several numbers of workers.
        kept = pathlib.Path(folder, "kept")
        figures = measured("--sweep", "3,2", "--shards", "2", "--params", "3000000", "--rounds",
                           "2", "--generators", "2", "--no-raw", "--no-pin", "--state", "--log-dir", str(kept))
        expect("runs", [run["workers"] for run in figures["runs"]], [2, 3])
        expect("state_kept", figures["state_kept"], True)
        for run in figures["runs"]:
            for shard in (0, 1):
                logged = sum(file.stat().st_size for file in
                             kept.glob(f"{run['workers']}/state/shard-{shard}/**/*") if file.is_file())
                if logged < run["shard"]["payload_bytes_in"] / 4:
                    raise Failure(f"shard {shard} of {run['workers']} workers has {logged} bytes on its disk")

        for arguments, status, sentence in (
                (["--workers", "513"], 1, "--workers"),
                (["--bits", "3"], 1, "--bits: got 3, wanted 1, 2, 4, 8, 16 or 32"),
                (["--server", "/nowhere/longwave-server", "--log-dir", folder], 1,
                 "cannot start coordinator"),
                (["--set", "sync.nothing=1"], 1, "sync.nothing"),
                (["--json", f"{folder}/no/such.json", "--workers", "1", "--params", "4096",
                  "--rounds", "1", "--no-raw"], 1, "such.json")):
            done = bench(program, *arguments)
            expect(f"status of {arguments}", done.returncode, status)
            if sentence not in done.stderr:
                raise Failure(f"{arguments}: got {done.stderr!r}, wanted {sentence!r} in it")


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in ("try", "file"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        {"try": attempt, "file": check}[arguments[0]](arguments[1])
    except (Failure, OSError, KeyError, ValueError) as error:
        print(f"error: check_figures.py: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
