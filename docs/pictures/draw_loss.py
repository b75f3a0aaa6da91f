#!/usr/bin/env python3
"""Draws docs/pictures/loss.svg, the validation loss of each preset against the bytes that it sends, by the table of
docs/reference/benchmarks.md.

    docs/pictures/draw_loss.py [--check]    --check: says whether the file is what would be drawn
"""

import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/pictures/loss.svg"
WIDTH, HEIGHT = 760, 330
LEFT, RIGHT, TOP, BOTTOM = 64, 30, 40, 56
MEGABYTES = (1, 10, 100, 1000)
LOSSES = (1.8, 2.0, 2.2, 2.4, 2.6)
OURS = "longwave"
# Where a name stands beside its point: to the right and up, in pixels, unless it says otherwise.
BESIDE = {"longwave_thin": (11, 2), "sparseloco": (11, 9), "ddp": (-10, -12), "ddp_muon": (-10, 4)}


def rows():
    """(preset, loss, megabytes up) of the first table."""
    table = (ROOT / "docs/reference/benchmarks.md").read_text(encoding="utf-8").split("## The presets on one text")[1]
    found = re.findall(r"^    (\w+) +\d+ +\d+ +([\d.]+) ± [\d.]+ +([\d.]+) ", table, re.MULTILINE)
    return [(name, float(loss), float(megabytes)) for name, loss, megabytes in found]


def x_of(megabytes):
    low, high = math.log10(0.7), math.log10(5000)
    return LEFT + (math.log10(megabytes) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def y_of(loss):
    low, high = 1.68, 2.66
    return HEIGHT - BOTTOM - (loss - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def text(x, y, what, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{what}</text>'


def draw():
    found = rows()
    method, diloco = (next(row for row in found if row[0] == name) for name in (OURS, "diloco"))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
             'font-size="13" fill="#333">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
             text(LEFT, 22, f"A lower loss than DiLoCo's, for {diloco[2] / method[2]:.0f} times fewer bytes up", "start",
                  ' font-size="16" font-weight="bold"')]
    for megabytes in MEGABYTES:
        x = x_of(megabytes)
        parts += [f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>',
                  text(x, HEIGHT - BOTTOM + 18, f"{megabytes} MB" if megabytes < 1000 else "1 GB")]
    for loss in LOSSES:
        y = y_of(loss)
        parts += [f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>', text(LEFT - 8, y + 4, f"{loss:.1f}", "end")]
    parts += [text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "sent by the four workers over the whole run (logarithmic)"),
              text(18, (TOP + HEIGHT - BOTTOM) / 2, "validation loss", "middle",
                   f' transform="rotate(-90 18 {(TOP + HEIGHT - BOTTOM) / 2:.1f})"')]
    for name, loss, megabytes in sorted(found, key=lambda row: row[0] == OURS):
        x, y, ours = x_of(megabytes), y_of(loss), name == OURS
        right, up = BESIDE.get(name, (11, 4))
        anchor = "middle" if right == 0 else "start" if right > 0 else "end"
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{8 if ours else 6}" fill="{"#d6336c" if ours else "#4c6ef5"}"/>',
                  text(x + right, y + up, name, anchor, ' font-weight="bold"' if ours else "")]
    return "\n".join(parts + ["</svg>", ""])


def main():
    drawn = draw()
    if sys.argv[1:] == ["--check"]:
        if PICTURE.read_text(encoding="utf-8") != drawn:
            sys.exit(f"{PICTURE} is not what docs/reference/benchmarks.md gives: run docs/pictures/draw_loss.py")
        return
    PICTURE.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
