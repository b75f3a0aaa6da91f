"""Programs that benches of whole runs start, and the settings of those runs."""

import shlex
import subprocess


def words(*settings):
    """The arguments of settings; of a key that is there twice the last value."""
    merged = {key: value for some in settings for key, value in some.items()}
    return [word for key, value in merged.items() for word in ("--set", f"{key}={value}")]


def run(*command, **options):
    """Runs a program to its end, which must be a good one; returns what it has printed."""
    command = [str(word) for word in command]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if ended.returncode:
        raise SystemExit(f"error: {shlex.join(command)}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}")
    return ended.stdout
