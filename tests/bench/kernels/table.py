#!/usr/bin/env python3
"""The table that bench_kernels writes: its shape, and what it says about the bars.

    table.py bars kernels.csv          the bars, with what was measured
    table.py check kernels.csv         whether every row is well-formed and every result right
    table.py try BENCH_KERNELS         runs the program with few parameters and checks its table

The standard library is enough.
"""

import csv
import math
import os
import pathlib
import subprocess
import sys
import tempfile

COLUMNS = ("bench,backend,threads,params,k,transform,bits,seconds,bytes,gb_per_s,percent_of_copy,"
           "params_per_s,times_reference,check").split(",")
NUMBERS = ["threads", "params", "k", "bits", "seconds", "bytes", "gb_per_s", "percent_of_copy",
           "params_per_s", "times_reference"]
ROOFLINES = {"copy", "pass", "read_write"}
TRANSFORMS = {"none", "dct", "dct-run"}
CODEC_BITS = {1, 2, 4, 8, 16, 32}
COUNTS = {8, 16, 32, 64, 128, 256}
UPDATES = {"decode_update", "decode_update_sign", "decode_update_nesterov", "decode_update_inner"}

# The kernels' bars: encode and decode-update at k 64, DCT, 2 bit.
ENCODE_OVER_PYTORCH_MIN = 20.0
ENCODE_OVER_PASS_MIN = 0.40
DECODE_OVER_READ_WRITE_MIN = 0.40
CUDA_ENCODE_PERCENT_MIN = 60.0
CUDA_DECODE_PERCENT_MIN = 70.0
CUDA_PARAMS_MIN = 1_000_000_000


class Failure(Exception):
    """Ends the program with one sentence."""


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise Failure(f"{path}: got the columns {reader.fieldnames}, wanted {COLUMNS}")
        rows = list(reader)
    for line, row in enumerate(rows, start=2):
        for column in NUMBERS:
            try:
                row[column] = float(row[column])
            except (TypeError, ValueError):
                raise Failure(f"{path}:{line}: {column}: got {row[column]!r}, wanted a number")
            if not math.isfinite(row[column]) or row[column] < 0:
                raise Failure(f"{path}:{line}: {column}: got {row[column]}")
        for column in ["threads", "params", "seconds", "bytes", "gb_per_s", "percent_of_copy"]:
            if row[column] <= 0:
                raise Failure(f"{path}:{line}: {column}: got {row[column]}, wanted more than 0")
        if row["transform"] not in TRANSFORMS:
            raise Failure(f"{path}:{line}: got the transform {row['transform']}")
        if row["check"] not in ("ok", "FAILED"):
            raise Failure(f"{path}:{line}: check: got {row['check']!r}, wanted ok or FAILED")
    return rows


def check(path):
    """Every row well-formed and right, and every row there that each backend must have."""
    rows = read(path)
    wrong = [row for row in rows if row["check"] != "ok"]
    if wrong:
        raise Failure(f"{path}: {len(wrong)} wrong results, the first of {wrong[0]['bench']} "
                      f"{wrong[0]['backend']}")
    groups = {}
    for row in rows:
        key = (row["bench"], row["transform"], int(row["k"]), int(row["bits"]))
        keys = groups.setdefault((row["backend"], int(row["threads"])), set())
        if key in keys:
            raise Failure(f"{path}: two rows of {row['backend']} for {key}")
        keys.add(key)
        if (row["times_reference"] == 0) != (row["bench"] in ROOFLINES):
            raise Failure(f"{path}: {key} of {row['backend']}: times_reference is "
                          f"{row['times_reference']}")
    for (backend, threads), keys in groups.items():
        wanted = {(name, "none", 0, 0) for name in ROOFLINES}
        bar_rows = TRANSFORMS - {"dct-run"} if backend == "pytorch" else TRANSFORMS
        for bench in ("encode", "decode_update"):
            wanted |= {(bench, transform, 64, 2) for transform in bar_rows}
            if backend in ("cpu", "cuda"):
                wanted |= {(bench, transform, k, 2) for transform in TRANSFORMS for k in COUNTS}
                wanted |= {(bench, transform, 64, bits)
                           for transform in TRANSFORMS for bits in CODEC_BITS}
        if backend in ("cpu", "cuda"):
            wanted |= {(update, "dct", 64, 2) for update in UPDATES}
            wanted |= {("encode_difference", "dct", 64, 2)}
        if keys != wanted:
            raise Failure(f"{path}: {backend} with {threads} threads: "
                          f"missing {sorted(wanted - keys)}, unexpected {sorted(keys - wanted)}")
    return rows


def find(rows, bench, backend, k=64, transform="dct", bits=2):
    """The row of one thread, or None."""
    if bench in ROOFLINES:
        k, transform, bits = 0, "none", 0
    for row in rows:
        if (row["bench"], row["backend"], row["threads"], row["k"], row["transform"],
                row["bits"]) == (bench, backend, 1, k, transform, bits):
            return row
    return None


def ratio(rows, bench, backend, over, over_backend):
    """Parameters a second of one row over another's, or None where one is missing."""
    row, other = find(rows, bench, backend), find(rows, over, over_backend)
    return row["params_per_s"] / other["params_per_s"] if row and other else None


def print_bar(what, value, wanted, unit, reason):
    if value is None:
        print(f"not measured  {what}: {reason}")
        return
    verdict = "met    " if value >= wanted else "not met"
    print(f"{verdict}  {what}: {value:.3g}{unit}, wanted {wanted:g}{unit}")


def bars(path):
    rows = read(path)
    print("The bars (k 64, DCT, 2 bit; CPU in one thread):")
    cpu = "no rows of the CPU"
    print_bar("CPU encode over the plain PyTorch step",
              ratio(rows, "encode", "cpu", "encode", "pytorch"), ENCODE_OVER_PYTORCH_MIN, " times",
              "no rows of PyTorch")
    print_bar("CPU encode over a pass m = b*m + g", ratio(rows, "encode", "cpu", "pass", "cpu"),
              ENCODE_OVER_PASS_MIN, " times", cpu)
    print_bar("CPU decode-update over a pass x = c*x",
              ratio(rows, "decode_update", "cpu", "read_write", "cpu"),
              DECODE_OVER_READ_WRITE_MIN, " times", cpu)
    for bench, wanted in (("encode", CUDA_ENCODE_PERCENT_MIN),
                          ("decode_update", CUDA_DECODE_PERCENT_MIN)):
        row = find(rows, bench, "cuda")
        if row and row["params"] < CUDA_PARAMS_MIN:
            print_bar(f"CUDA {bench}", None, wanted, "",
                      f"at {row['params']:.3g} parameters only, wanted {CUDA_PARAMS_MIN:.0e}")
            continue
        print_bar(f"CUDA {bench} of the copy bandwidth", row and row["percent_of_copy"], wanted,
                  " %", "no rows of CUDA: not in this build, or no GPU here")
    wrong = sum(row["check"] != "ok" for row in rows)
    print(f"{len(rows)} rows, {wrong} wrong results: {path}")


def attempt(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernels.csv"
        done = subprocess.run([program, "--quick", "--out", path], check=False)
        if done.returncode != 0:
            raise Failure(f"{program} --quick: exit status {done.returncode}")
        rows = check(path)
        backends = {row["backend"] for row in rows}
        if not {"cpu", "reference"} <= backends:
            raise Failure(f"got rows of {sorted(backends)}, wanted cpu and reference among them")
        # A worse table must be told from a good one, or the checks above say nothing.
        text = path.read_text(encoding="utf-8")
        for worse in (text.replace(",ok", ",FAILED", 1), text.replace("gb_per_s", "gbs", 1),
                      text[:text.rstrip().rindex("\n") + 1]):
            path.write_text(worse, encoding="utf-8")
            try:
                check(path)
            except Failure:
                continue
            raise Failure("a table that is not right was taken for one that is")
        refused = subprocess.run([program, "--params", "none"], check=False,
                                 stderr=subprocess.PIPE, text=True)
        if refused.returncode != 2 or '--params: got "none"' not in refused.stderr:
            raise Failure(f"--params none: got {refused.returncode}, {refused.stderr!r}")
        print(f"{len(rows)} rows of {', '.join(sorted(backends))}")


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in ("bars", "check", "try"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        {"bars": bars, "check": check, "try": attempt}[arguments[0]](os.fspath(arguments[1]))
    except (Failure, OSError) as error:
        print(f"error: table.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
