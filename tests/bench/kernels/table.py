#!/usr/bin/env python3
"""The bars in the table that bench_kernels writes.

    table.py bars kernels.csv

The standard library is enough.
"""

import csv
import sys

NUMBERS = ["threads", "params", "k", "bits", "percent_of_copy", "params_per_s"]
ROOFLINES = {"copy", "pass", "read_write"}

# The kernels' bars: encode and decode-update at k 64, DCT, 2 bit.
ENCODE_OVER_PYTORCH_MIN = 20.0
ENCODE_OVER_PASS_MIN = 0.40
DECODE_OVER_READ_WRITE_MIN = 0.40
CUDA_ENCODE_PERCENT_MIN = 60.0
CUDA_DECODE_PERCENT_MIN = 70.0
CUDA_PRESET_PERCENT_MIN = 60.0
CUDA_PARAMS_MIN = 1_000_000_000
# The presets send these: (preset, bench, k, transform, bits).
PRESET_ROWS = [("longwave", "encode_difference", 116, "dct", 1), ("longwave", "decode_update", 464, "dct", 2),
               ("longwave_thin", "encode_difference", 58, "dct", 1), ("longwave_thin", "decode_update", 232, "dct", 2),
               ("longwave_adamw", "encode_difference", 128, "none", 1), ("longwave_adamw", "decode_update", 512, "none", 2)]


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [{**row, **{column: float(row[column]) for column in NUMBERS}} for row in csv.DictReader(file)]


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
    print("The bars (k 64, DCT, 2 bit, where nothing else is said; CPU in one thread):")
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
    for preset, bench, k, transform, bits in PRESET_ROWS:
        row = find(rows, bench, "cuda", k, transform, bits)
        print_bar(f"CUDA {bench} of {preset} (k {k}, {bits} bit)",
                  row and row["percent_of_copy"] if row and row["params"] >= CUDA_PARAMS_MIN else None,
                  CUDA_PRESET_PERCENT_MIN, " %", "no row of CUDA with 1e9 parameters")
    wrong = sum(row["check"] != "ok" for row in rows)
    print(f"{len(rows)} rows, {wrong} wrong results: {path}")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "bars":
        sys.exit(__doc__)
    bars(sys.argv[2])
