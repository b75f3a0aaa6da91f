#!/usr/bin/env python3
"""Kills, freezes and restarts the processes of a run at random, and then counts what is left.

    tests/chaos/chaos.py --minutes 10                 integer workers: every value is known
    tests/chaos/chaos.py --minutes 10 --mode training a real model beside a quiet run

One process in about a second is killed (SIGKILL) or frozen (SIGSTOP) and comes back some time later.
After the time is over the run may end in peace. Then the shards' logs are audited: every accepted push
in exactly one merge, every merge what its pushes make, all replicas equal, and with integer workers
every single value as it was written down beforehand. Exit status 0: nothing is wrong.

    tests/chaos/chaos.py --minutes 10 --links --secured    links are damaged as well (proxy.py)
    tests/chaos/chaos.py --minutes 5 --flip-every 10 --spare-processes    they alone, each so often

In a run that is not secured nothing is changed or doubled on control links, but they stall and break:
gRPC has no checksum, so that a changed bit may be another number there. TLS finds it.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
from time import sleep

from cluster import CONTROL, Cluster, Failure, now
from proxy import Proxies

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
from harness import write_text  # noqa: E402

TICK_S = 0.02
# Time within which an undisturbed run must end.
END_S = 180
ROUNDS_A_MINUTE, FLIPPED_ROUNDS_A_MINUTE = 100, 30
# A worker that came back counts as away until it has finished a round, or for this long.
RECOVERING_S = 6
# Limit of workers away at once: the others are a quorum.
AWAY_MAX = 2

# An act, its weight in twenty, and its longest duration in seconds.
Act = collections.namedtuple("Act", "what whom count seconds")
ACTS = [Act("kill", "worker", 8, 3.0), Act("freeze", "worker", 5, 3.0),
        Act("kill", "shard", 3, 1.0), Act("freeze", "shard", 1, 1.0),
        Act("kill", "coordinator", 2, 2.0), Act("freeze", "coordinator", 1, 2.0)]
LINK_ACTS = [Act("flip", "data link", 6, 0), Act("duplicate", "data link", 2, 2.0),
             Act("stall", "data link", 2, 3.0), Act("cut", "data link", 2, 0),
             Act("stall", "control link", 2, 3.0), Act("cut", "control link", 2, 0)]
SECURED_LINK_ACTS = [Act("flip", "control link", 3, 0), Act("duplicate", "control link", 1, 1.0)]
# Time within which a worker that lost a link must have finished a round again.
LINK_BAR_S = 15
# A process of a busy machine may stand still for so long.
STALL_S = 10
# The quiet time at the end, in which every worker that has lost a link must take part again.
PEACE_S = LINK_BAR_S + RECOVERING_S + STALL_S
# A test with fewer disturbances than one in so many intervals has tested nothing.
INTERVALS_MAX = 3

GRACE_MIN_S, GRACE_MAX_S = 0.5, 1.0
# Limits of the pauses of the other workers: the grace and a second after a worker's kill or freeze, and 5 s after a
# shard or the coordinator is back.
WORKER_BAR_S, SERVER_BAR_S = GRACE_MAX_S + 1, 5
HEARTBEAT_TIMEOUT_S = 5


def configuration(options, rounds, text):
    tree = {
        "run": {"preset": "longwave", "steps": rounds, "workers": options.workers,
                "shards": options.shards, "seed": options.seed, "validation_batches": 2},
        "model": {"kind": "gpt", "d_model": 96, "layers": 1, "heads": 2, "context": 2},
        "data": {"path": str(text)},
        "train": {"batch": 1, "threads": 1, "device": "cpu"},
        "sync": {"quorum": 0.5, "segment_tiles": 1},
        "cluster": {"heartbeat_interval_s": 0.25, "heartbeat_timeout_s": HEARTBEAT_TIMEOUT_S,
                    "grace_min_s": GRACE_MIN_S, "grace_max_s": GRACE_MAX_S, "state_rounds": 8,
                    "snapshot_rounds": 50, "checkpoint_rounds": 1},
    }
    if options.secured:
        tree["security"] = {"mode": "on"}
    if options.mode == "integer":
        # Integers stay integers: no optimizer, no transform, fp32 both ways, a mean, and η = 1. (The worker itself sets
        # β to 1: the unsent part is kept whole.)
        tree["train"].update(learning_rate=0, warmup_steps=0, weight_decay=0, clip_norm=0)
        tree["sync"].update(inner_steps=1, beta=0, alpha=1, transform="none", tiling="flat",
                            up={"selection": "topk", "k": options.k, "codec": "fp32"}, rho=0,
                            down={"selection": "topk", "k": 2 * options.k, "codec": "fp32"},
                            update="sgd",
                            eta=1, clip=0)
    else:
        tree["model"].update(d_model=64, context=32)
        inner_steps = 5
        tree["run"].update(steps=rounds * inner_steps, validate_every=max(1, rounds // 10),
                           validation_batches=16)
        tree["train"].update(batch=8, warmup_steps=20)
        tree["sync"].update(inner_steps=inner_steps)
    return tree


class Progress:
    """When which round was finished: by the workers' journals, or else by the coordinator's records."""

    def __init__(self, cluster, has_journals):
        self.cluster, self.has_journals = cluster, has_journals
        self.offsets = {worker.name: 0 for worker in cluster.workers}
        self.last = {worker.name: 0.0 for worker in cluster.workers}  # time of each worker's last finished round
        self.times = {worker.name: [] for worker in cluster.workers}  # of all finished rounds
        self.done = {}  # each worker's last round
        self.newest, self.steps = -1, []  # (time, round): the first finish of each round
        self.metrics_size = 0

    def look(self):
        if not self.has_journals:
            return self._look_at_metrics()
        events = []
        for name, offset in self.offsets.items():
            try:
                with open(self.cluster.folder / "journal" / name, "rb") as journal:
                    journal.seek(offset)
                    whole = journal.read().rpartition(b"\n")
            except FileNotFoundError:
                continue
            self.offsets[name] += len(whole[0]) + len(whole[1])
            for line in whole[0].decode().splitlines():
                word, *rest = line.split()
                if word == "round":
                    events.append((int(rest[1]) / 1e9, int(rest[0])))
                    self.last[name], self.done[name] = events[-1]
                    self.times[name].append(self.last[name])
        for time, done in sorted(events):
            self._take(time, done)

    def _look_at_metrics(self):
        try:
            size = os.path.getsize(self.cluster.folder / "metrics.jsonl")
        except FileNotFoundError:
            return
        if size != self.metrics_size:
            self.metrics_size = size
            self._take(now(), max(self.cluster.rounds(), default=-1))

    def _take(self, time, done):
        if done > self.newest:
            self.newest = done
            self.steps.append((time, done))


class Chaos:
    """The disturbances of one run."""

    def __init__(self, cluster, progress, rng, options):
        self.cluster, self.progress, self.rng = cluster, progress, rng
        self.interval = options.interval
        self.acts = [] if options.spare_processes else list(ACTS)
        if options.links:
            self.acts += LINK_ACTS + (SECURED_LINK_ACTS if options.secured else [])
        self.counts = collections.Counter()
        self.harmed = {}  # time of a harmed link by worker, with the newest round then
        self.events = []  # (begin, end, "worker" | "shard" | "coordinator", name)
        self.next = None
        self.without_target_s = 0  # for which the act that was due had none
        self.deck = []  # shuffled acts, each as often as its count

    def away(self):
        return [worker for worker in self.cluster.workers if worker.state in ("down", "frozen") or
                (worker.lives > 1 or worker.name in self.touched()) and
                self.progress.last[worker.name] < worker.up_since and
                now() < worker.up_since + RECOVERING_S or self._has_harmed_link(worker)]

    def _has_harmed_link(self, worker):
        """And is not with the others since. What it had sent before may end one more round."""
        harmed, newest = self.harmed.get(worker.name, (-LINK_BAR_S, 0))
        done = self.progress.done.get(worker.name, -1)
        is_with_them = done >= newest + 2 and done >= self.progress.newest - 1
        return now() < harmed + LINK_BAR_S and not is_with_them

    def touched(self):
        return {name for _, _, _, name in self.events}

    def come_back(self, everybody=False):
        for process in self.cluster.all():
            if process.due is None or not everybody and now() < process.due:
                continue
            if process.state == "down":
                process.start()
            elif process.state == "frozen":
                process.thaw()
            for i in range(len(self.events) - 1, -1, -1):
                begin, end, kind, name = self.events[i]
                if name == process.name and end is None:
                    self.events[i] = (begin, now(), kind, name)
                    break

    def act(self):
        if not self.acts:
            return
        if self.next is None:
            self.next = now() + self.interval
        if now() < self.next:
            return
        if not self.deck:
            self.deck = [act for act in self.acts for _ in range(act.count)]
            self.rng.shuffle(self.deck)
        group = self._targets(self.deck[-1])
        if not group:
            return  # the act stays on top until it has a target
        act = self.deck.pop()
        self.without_target_s += now() - self.next
        self.next = now() + self.rng.uniform(0.5, 1.5) * self.interval
        target = self.rng.choice(group)
        self.counts[f"{act.what} {act.whom}"] += 1
        if act.whom.endswith("link"):
            return self._harm(act, target)
        due = now() + self.rng.uniform(0.05, act.seconds)
        (target.kill if act.what == "kill" else target.freeze)()
        target.due = due
        self.events.append((now(), None, act.whom, target.name))

    def _harm(self, act, target):
        seconds = self.rng.uniform(0.05, act.seconds) if act.seconds else 0
        end = CONTROL if act.whom == "control link" else self.rng.choice(self.cluster.shards).name
        self.cluster.proxies.harm(f"{target.name} {end}", act.what, seconds)
        self.events.append((now(), now() + seconds + LINK_BAR_S, "link", target.name))
        if target in self.cluster.workers:
            self.harmed[target.name] = (now(), self.progress.newest)

    def _targets(self, act):
        """The present targets: acts leave all but two of the workers, and all shards."""
        away = self.away()
        group = {"worker": self.cluster.workers, "shard": self.cluster.shards,
                 "coordinator": [self.cluster.coordinator], "data link": self.cluster.workers,
                 "control link": self.cluster.workers + self.cluster.shards}[act.whom]
        if act.whom in ("worker", "data link", "control link") and len(away) >= AWAY_MAX:
            return []
        if act.whom == "shard" and any(shard.state != "up" for shard in group):
            return []
        return [process for process in group if process.look() == "up" and process not in away]


def pauses(progress, chaos, begin, end):
    """The longest pause between two finished rounds, by what had happened: {kind: (seconds, when)}.
    Of workers: the whole pause. Of servers: from when the last of them was back."""
    longest = {kind: (0, 0) for kind in ("nothing", "worker", "link", "shard", "coordinator")}
    times = [time for time, _ in progress.steps if begin <= time <= end]
    for first, last in zip(times, times[1:]):
        there = [event for event in chaos.events
                 if event[0] < last and (event[1] or end) > first]
        kinds = {event[2] for event in there}
        kind = next((kind for kind in ("shard", "coordinator", "worker", "link") if kind in kinds),
                    "nothing")
        seconds = last - first
        if kind in ("shard", "coordinator"):
            back = max(event[1] or last for event in there if event[2] in ("shard", "coordinator"))
            seconds = min(seconds, max(0, last - back))
        if seconds > longest[kind][0]:
            longest[kind] = (seconds, last - begin)
    return longest


def run_once(options, folder, rounds, chaos_seconds, rng):
    """A run under chaos for at most so many seconds. Returns its result."""
    folder.mkdir(parents=True)
    text = folder / "text.txt"
    write_text(text, 200_000)
    (folder / "config.yaml").write_text(json.dumps(configuration(options, rounds, text)))
    integer = options.mode == "integer"
    binary = options.tests / "integer_worker" if integer else options.bin / "longwave-worker"

    if integer:
        subprocess.run([str(binary), "--config", str(folder / "config.yaml"), "--write-initial",
                        str(folder / "initial.safetensors")], check=True)

    def worker_command(name):
        command = [binary, "--config", folder / "config.yaml", "--name", name, "--state-dir",
                   folder / "state" / name]
        return command + (["--run-folder", folder, "--step-ms", options.step_ms] if integer else
                          ["--run-dir", folder, "--threads", 1])

    proxies = Proxies(options.seed) if options.links or options.flip_every else None
    cluster = Cluster(folder, options.bin, worker_command, options.workers, options.shards, proxies,
                      options.secured)
    progress = Progress(cluster, integer)
    chaos = Chaos(cluster, progress, rng, options)
    if options.flip_every:
        proxies.flip_every(lambda link: options.secured or not link.endswith(CONTROL),
                           options.flip_every)
    try:
        cluster.start()
        watch(cluster, progress, chaos, chaos_seconds, END_S)
    finally:
        cluster.archive()
        cluster.stop()
        if proxies is not None:
            proxies.close()
    progress.look()
    return cluster, progress, chaos


def watch(cluster, progress, chaos, chaos_seconds, end_s):
    """Until the run has ended: chaos from its first round on, for a time, then peace."""
    began = peace = None
    while True:
        sleep(TICK_S)  # everything here is watched by looking
        cluster.archive()
        progress.look()
        if progress.newest >= 0 and began is None:
            began = now()
        for process in cluster.all():
            if process.look() == "ended" and process.status != 0 and not came_too_late(process):
                raise Failure(f"{process.name} ended with {process.status}: {process.last_words()}")
        ended = [worker for worker in cluster.workers if worker.state == "ended"]
        if peace is None and (ended or began is not None and now() > began + chaos_seconds):
            peace = now()
            if cluster.proxies is not None:
                cluster.proxies.heal()
        chaos.come_back(everybody=peace is not None)
        if peace is None:
            if began is not None:
                chaos.act()
        elif len(ended) == len(cluster.workers):
            chaos.began, chaos.ended = began, peace
            return
        elif now() > peace + end_s:
            states = ", ".join(f"{process.name} {process.state}" for process in cluster.all())
            raise Failure(f"the run did not end within {end_s} s of peace: round "
                          f"{progress.newest}; {states}")
        if began is None and now() > cluster.workers[0].up_since + END_S:
            raise Failure("the run did not begin")


def came_too_late(process):
    """A worker that came back after the run's end."""
    return "the run is over (finished" in process.last_words()


def write_summary(cluster):
    """The summary that `longwave up` would have written."""
    records = cluster.rounds()
    if not records:
        raise Failure("the coordinator has no record of any round")
    last = records[max(records)]
    losses = [records[i]["validation_loss"] for i in sorted(records)
              if records[i]["validation_loss"] is not None]
    (cluster.folder / "summary.json").write_text(json.dumps(
        {"rounds": last["round"] + 1, "state_hash": last["state_hash"]}))
    return {"rounds": last["round"] + 1, "replicas_equal": last["replicas_equal"],
            "state_hash": last["state_hash"], "validation_loss": losses[-1] if losses else None}


def audit(options, cluster):
    """Runs the audits; returns what they print and whether all is well."""
    commands = []
    replay = [options.bin / "longwave", "replay", cluster.folder]
    if options.mode == "integer":
        commands.append([options.tests / "chaos_audit", cluster.folder])
        replay += ["--initial", cluster.folder / "initial.safetensors"]
    commands.append(replay)
    good = True
    for command in commands:
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        print(done.stdout, end="")
        good = good and done.returncode == 0
    return good


def write_events(cluster, progress, chaos):
    """The acts, their targets and the finished rounds, in seconds of the chaos, for reference."""
    since = lambda time: None if time is None else round(time - chaos.began, 3)
    lines = [(since(begin), f"{name} away until {since(end)}")
             for begin, end, _, name in chaos.events]
    lines += [(since(time), f"round {done} done") for time, done in progress.steps]
    (cluster.folder / "events.txt").write_text(
        "".join(f"{time:9.3f} {text}\n" for time, text in sorted(lines)))


def report(options, summary, progress, chaos, good):
    wrong = []
    acts = ", ".join(f"{name} {count}" for name, count in sorted(chaos.counts.items()))
    under = sum(chaos.began <= time <= chaos.ended for time, _ in progress.steps)
    seconds = chaos.ended - chaos.began
    print(f"chaos: {summary['rounds']} rounds, {under} of them in {seconds:.0f} s of chaos; "
          f"{sum(chaos.counts.values())} times: {acts or 'nothing'}")
    if not good:
        wrong.append("the audit has found something")
    if under == 0:
        wrong.append("no round was finished under chaos")
    if not summary["replicas_equal"]:
        wrong.append("replicas differ at the end")
    wrong += report_links(options, progress, chaos)
    if not progress.has_journals:
        return wrong  # the coordinator's records come with its restarts, and do not show pauses
    longest = pauses(progress, chaos, chaos.began, chaos.ended)
    print("chaos: longest pause: " + "; ".join(
        f"{kind} {pause:.2f} s (at {when:.0f} s)" for kind, (pause, when) in longest.items()))
    print(f"chaos: bars: after a worker {WORKER_BAR_S:.1f} s (grace {GRACE_MIN_S} to "
          f"{GRACE_MAX_S} s), after a server is back {SERVER_BAR_S:.1f} s")
    if options.bars:
        for kind, bar_s in (("worker", WORKER_BAR_S), ("link", WORKER_BAR_S),
                            ("shard", SERVER_BAR_S), ("coordinator", SERVER_BAR_S)):
            if longest[kind][0] > bar_s:
                wrong.append(f"{longest[kind][0]:.2f} s without progress after a {kind}")
    return wrong


def report_links(options, progress, chaos):
    """The acts on links, and their longest outage."""
    cluster = chaos.cluster
    if cluster.proxies is None:
        return []
    wrong, harms = [], cluster.proxies.harms
    flips = collections.Counter(harm.link for harm in harms if harm.what == "flip")
    counts = collections.Counter(harm.what for harm in harms)
    print("chaos: links: " + ", ".join(f"{what} {count}" for what, count in sorted(counts.items())))
    seconds = chaos.ended - chaos.began
    if options.flip_every:
        idle = [name for name, link in cluster.proxies.links.items() if link.flip_every is not None and
                flips[name] < seconds // (options.flip_every * INTERVALS_MAX) and "nobody" not in name]
        if not flips or idle:
            wrong.append(f"no flips, or too few, on {', '.join(idle) or 'any link'}")
    downs = []
    for worker in cluster.workers:
        log = (cluster.folder / "logs" / f"{worker.name}.log").read_text(errors="replace")
        downs += [float(found) for found in re.findall(r"answers again, after ([0-9.]+) s", log)]
    print(f"chaos: links made anew and found again: {len(downs)}, after {max(downs, default=0):.1f} s "
          "at most")
    # Time from a harm to the next round of its worker, if no process was harmed meanwhile.
    away = [event for event in chaos.events if event[2] != "link"]
    longest = (0, None)
    for harm in harms:
        after = [time for time in progress.times.get(harm.link.split()[0], []) if time > harm.time]
        if not after or any(begin < after[0] and (end or after[0]) > harm.time - RECOVERING_S
                            for begin, end, _, _ in away):
            continue
        longest = max(longest, (after[0] - harm.time, f"{harm.what} on {harm.link}"))
    if longest[1] is not None:
        print(f"chaos: from a harm to its worker's next round: {longest[0]:.1f} s at most "
              f"({longest[1]})")
    if options.spare_processes:
        for name, times in progress.times.items():
            pauses_of_worker = [b - a for a, b in zip([chaos.began] + times, times)]
            print(f"chaos: {name}: {len(times)} rounds, {max(pauses_of_worker, default=0):.1f} s without "
                  "one at most")
            if not times or times[-1] < chaos.ended:
                wrong.append(f"{name} has finished no round since nothing is damaged any more")
    link_bar_s = LINK_BAR_S if options.bars else LINK_BAR_S + STALL_S
    if options.spare_processes and max(downs, default=0) > link_bar_s:
        wrong.append(f"a link was down for {max(downs):.1f} s, wanted {link_bar_s} s at most")
    return wrong


def quiet_loss(options, folder, rounds):
    cluster, _, _ = run_once(options, folder, rounds, 0, random.Random(0))
    return write_summary(cluster)["validation_loss"]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rounds", type=int, help="of a run; by default 100 a minute, or 30 with --flip-every")
    parser.add_argument("--mode", choices=["integer", "training"], default="integer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between disturbances")
    parser.add_argument("--step-ms", type=int, default=100, help="of an integer worker's step")
    parser.add_argument("--links", action="store_true", help="damage links beside processes")
    parser.add_argument("--flip-every", type=float, metavar="S",
                        help="flip a bit on each link every S seconds")
    parser.add_argument("--spare-processes", action="store_true", help="kill and freeze nobody")
    parser.add_argument("--secured", action="store_true", help="with certificates, TLS and CURVE")
    parser.add_argument("--k", type=int, default=256,
                        help="of 4096, up, and twice that down: how fast the logs grow")
    parser.add_argument("--loss-margin", type=float, default=0.05)
    parser.add_argument("--bars", action="store_true", help="pauses beyond the bars are failures")
    parser.add_argument("--bin", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("LONGWAVE_BIN", ROOT / "build/bin")))
    parser.add_argument("--tests", type=pathlib.Path, default=pathlib.Path(
        os.environ.get("LONGWAVE_TESTS", ROOT / "build/tests")))
    parser.add_argument("--folder", type=pathlib.Path, help="of the runs; kept afterwards")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    a_minute = ROUNDS_A_MINUTE if options.flip_every is None else FLIPPED_ROUNDS_A_MINUTE
    rounds = min(options.rounds or max(20, round(a_minute * options.minutes)), 2000)
    if options.spare_processes:
        rounds += round(PEACE_S * 1000 / options.step_ms)
    folder = options.folder or pathlib.Path(tempfile.mkdtemp(prefix="longwave-chaos-"))
    rng = random.Random(options.seed)
    left, number, wrong = options.minutes * 60, 0, []
    acted, acted_for = 0, 0.0  # over all runs, since the last may be short
    print(f"chaos: {options.mode}, seed {options.seed}, folder {folder}", flush=True)
    try:
        quiet = None
        if options.mode == "training":
            quiet = quiet_loss(options, folder / "quiet", rounds)
            print(f"chaos: validation loss of the quiet run {quiet:.4f}", flush=True)
        while left > 5 or number == 0:
            number += 1
            begin = now()
            cluster, progress, chaos = run_once(options, folder / f"run-{number}", rounds, left, rng)
            summary = write_summary(cluster)
            write_events(cluster, progress, chaos)
            good = audit(options, cluster)
            wrong += report(options, summary, progress, chaos, good)
            if quiet is not None:
                loss = summary["validation_loss"]
                print(f"chaos: validation loss {loss:.4f}, quiet {quiet:.4f}")
                if loss > quiet + options.loss_margin:
                    wrong.append(f"validation loss {loss:.4f}, quiet {quiet:.4f}")
            if chaos.acts:
                acted += sum(chaos.counts.values())
                acted_for += chaos.ended - chaos.began - chaos.without_target_s
            left -= chaos.ended - chaos.began if not wrong else left
            print(f"chaos: run {number} took {now() - begin:.0f} s", flush=True)
        if acted < acted_for / options.interval / INTERVALS_MAX:
            wrong.append(f"only {acted} disturbances in {acted_for:.0f} s")
    except Failure as failure:
        wrong.append(str(failure))
    for sentence in wrong:
        print(f"chaos: WRONG: {sentence}")
    if wrong:
        print(f"chaos: failed; everything is in {folder}")
        return 1
    print("chaos: nothing is wrong")
    if options.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
