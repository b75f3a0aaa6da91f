"""The metrics pages of live processes: every series of the table, in a form that promtool accepts, and figures
that agree with the run's result."""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest
import urllib.request

from by_hand import HandCluster
from harness import DEADLINE_S, IntegrationTest

ENDLESS = {"run__steps": 100_000_000, "sync__inner_steps": 2, "run__validate_every": 2,
           "cluster__state_rounds": 2, "cluster__snapshot_rounds": 4}
REFERENCE = pathlib.Path(__file__).parents[2] / "docs/reference/metrics.md"
SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# Series that need a GPU.
ABSENT = {"longwave_worker_gpu_memory_bytes"}


def table():
    """Part ("coordinator", …, "every") to names, with their types."""
    rows, part = {}, None
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            part = line.split()[-1].replace("process", "every")
        elif row := re.match(r"- `(\w+)` \((\w+)", line):
            rows.setdefault(part, {})[row[1]] = row[2]
    return rows


def scrape(address, path="/metrics"):
    """The page's text; nothing if nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.read().decode()
    except (OSError, http.client.HTTPException):  # HTTPException: it has ended in the middle of the answer
        return None


def samples(page):
    """(name, labels) to value."""
    found = {}
    for line in page.splitlines():
        if line and not line.startswith("#"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            found[name, frozenset(LABEL.findall(labels or ""))] = float(value)
    return found


def total(page, name, **labels):
    """The sum of the series of that name with these labels; 0 of no page."""
    return sum(value for (known, has), value in samples(page or "").items()
               if known == name and set(labels.items()) <= has)


class Pages(IntegrationTest):
    def targets(self, count, name="test"):
        """Process to address, once that many have said it."""
        path = self.root / "runs" / name / "prometheus-targets.json"
        self.await_that(lambda: path.exists() and len(json.loads(path.read_text())) == count)
        groups = json.loads(path.read_text())
        for group in groups:
            self.assertEqual(group["labels"]["run"], name)
            self.assertEqual(group["labels"]["part"], group["labels"]["process"].split("-")[0])
        return {group["labels"]["process"]: group["targets"][0] for group in groups}

    def await_that(self, condition):
        """There is nothing to wait on but the state of files and pages: looks again and again."""
        end = time.monotonic() + DEADLINE_S
        while not condition():
            self.assertLess(time.monotonic(), end, "waited in vain")
            time.sleep(0.02)

    def page(self, address):
        """As soon as somebody answers: a process that is busy may not."""
        got = []
        self.await_that(lambda: got.append(scrape(address)) or got[-1] is not None)
        return got[-1]

    def start_and_train(self, **settings):
        """An endless run of two shards and two workers, some rounds and a snapshot into it."""
        child = self.start_up(**{**ENDLESS, **settings})
        child.await_line("round ")
        targets = self.targets(5)
        shards = [targets["shard-0"], targets["shard-1"]]
        self.await_that(lambda: all(
            total(scrape(shard), "longwave_shard_snapshots_written_total", kind="model") > 0 for shard in shards))
        # The coordinator's first window of a worker is a second long.
        self.await_that(lambda: "longwave_coordinator_worker_step_seconds" in (scrape(targets["coordinator"]) or ""))
        return targets

    def test_every_row_of_the_table_is_on_the_page_of_a_live_process(self):
        # Secured, for the series of certificates, with an interval that is fitted, for those of it.
        targets = self.start_and_train(security__mode="on", metrics__peak_tflops=2, cluster__heartbeat_timeout_s=17,
                                       sync__inner_steps="auto")
        rows = table()
        seen = set()
        for process, address in targets.items():
            part = process.split("-")[0]
            page = samples(self.page(address))
            names = {name for name, _ in page}
            for name, kind in {**rows[part], **rows["every"]}.items():
                wanted = [f"{name}_bucket", f"{name}_sum", f"{name}_count"] if kind == "histogram" else [name]
                if names.issuperset(wanted):
                    seen.add(name)
                elif name != "longwave_worker_validation_loss":  # only one of the workers has it
                    self.assertIn(name, ABSENT, f"is not on the page of {process}")
            for name, labels in page:
                self.assertIn(("run", "test"), labels, name)
                if part != "coordinator":
                    wanted = ("worker", process) if part == "worker" else ("shard", process.split("-")[1])
                    self.assertIn(wanted, labels, name)
            known = set(rows[part]) | set(rows["every"])
            self.assertEqual({re.sub("_(bucket|sum|count)$", "", name) for name in names} - known, set())
            # The limits that alerts compare with come from the configuration, on every page.
            text = self.page(address)
            self.assertEqual(total(text, "longwave_heartbeat_timeout_seconds"), 17)
            self.assertEqual(total(text, "longwave_run_info", preset="longwave", model="gpt", security="on"), 1)
            life = total(text, "longwave_certificate_lifetime_seconds")
            self.assertGreater(life, 0)
            left = total(text, "longwave_certificate_expiry_timestamp_seconds") - time.time()
            self.assertTrue(life / 2 < left < life, (left, life))
            if part == "worker":
                self.assertEqual(total(text, "longwave_worker_peak_flops"), 2e12)
                flops, tokens = (total(text, f"longwave_worker_{name}_total") for name in ("model_flops", "tokens"))
                self.assertGreater(flops, 0)
                # Two operations a weight forwards and four backwards, plus the attention's.
                self.assertTrue(1 < flops / tokens / 6 / total(text, "longwave_worker_parameters") < 2)
            self.await_that(lambda where=address: scrape(where, "/healthz") == "ok\n")
        self.assertEqual({name for names in rows.values() for name in names} - seen, ABSENT)

    def test_promtool_finds_nothing_to_say(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("promtool (Debian's package prometheus) is not installed")
        targets = self.start_and_train()
        for process in ("coordinator", "shard-0", "worker-0", "worker-1"):
            checked = subprocess.run([promtool, "check", "metrics"], input=self.page(targets[process]), text=True,
                                     capture_output=True, check=False)
            self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""), process)

    def test_they_agree_with_the_summary(self):
        # The run is still in progress when all processes have printed their pages' addresses, and seconds later.
        steps = 2400
        child = self.start_up(run__steps=steps, sync__inner_steps=4, run__validate_every=50)
        targets = self.targets(5)
        # The coordinator stays until `up` tells it to end, so that the test sees the end.
        child.process.send_signal(signal.SIGSTOP)
        last = {process: self.page(address) for process, address in targets.items()}

        def is_finished():
            for process, address in targets.items():
                last[process] = scrape(address) or last[process]
            return total(last["coordinator"], "longwave_coordinator_phase", phase="finished") == 1

        self.await_that(is_finished)
        child.process.send_signal(signal.SIGCONT)
        self.ends(child)
        summary = json.loads((self.root / "runs/test/summary.json").read_text(encoding="utf-8"))
        page = last["coordinator"]
        for name, labels, key in (
                ("rounds_finished_total", {}, "rounds"), ("steps_total", {}, "steps"),
                ("parameters", {}, "params"), ("tokens_total", {}, "tokens"),
                ("ddp_bytes_total", {}, "bytes_ddp_fp32"), ("diloco_bytes_total", {}, "bytes_diloco_fp32"),
                ("payload_bytes_total", {"direction": "pushed"}, "payload_bytes_pushed"),
                ("payload_bytes_total", {"direction": "pulled"}, "payload_bytes_pulled"),
                ("train_loss", {}, "train_loss"), ("validation_loss", {}, "val_loss"),
                ("repairs_total", {}, "repairs")):
            self.assertAlmostEqual(total(page, f"longwave_coordinator_{name}", **labels), summary[key], msg=name)
        self.assertEqual(total(page, "longwave_coordinator_replicas_unequal"), 0)
        self.assertEqual(total(page, "longwave_coordinator_joins_total", how="new"), 2)
        self.assertEqual(total(page, "longwave_coordinator_departures_total"), 0)
        # Each worker's page was read some moments before its end.
        for worker in ("worker-0", "worker-1"):
            self.assertLessEqual(total(last[worker], "longwave_worker_steps_total"), steps)
            self.assertGreater(total(last[worker], "longwave_worker_steps_total"), 0)

    def kill(self, address, *arguments):
        """The run's process with these arguments; waits until another one serves its pages."""
        start = total(self.page(address), "process_start_time_seconds")
        for pid in self.processes_of(*arguments):
            os.kill(pid, signal.SIGKILL)
        self.await_that(lambda: (again := scrape(address)) is not None
                        and total(again, "process_start_time_seconds") > start)

    def test_counters_of_a_worker_that_comes_back_begin_anew(self):
        targets = self.start_and_train()
        worker = targets["worker-0"]
        self.kill(worker, "--name", "worker-0")
        self.await_that(lambda: total(scrape(worker), "longwave_worker_steps_total") > 0)
        page = self.page(worker)
        steps = total(self.page(worker), "longwave_worker_steps_total")  # read later, so not less
        config = (self.root / "runs/test/config.yaml").read_text(encoding="utf-8")
        batch, context = (int(re.search(rf"^ +{key}: (\d+)", config, re.M).group(1)) for key in ("batch", "context"))
        # Tokens are shown with the state, some steps after they are counted.
        self.assertLessEqual(total(page, "longwave_worker_tokens_total"), steps * batch * context)

    def test_a_killed_process_serves_where_it_did(self):
        targets = self.start_and_train()
        self.kill(targets["shard-0"], "--shard", "0")
        self.await_that(lambda: total(
            scrape(targets["coordinator"]), "longwave_coordinator_shard_restarts_total") == 1)

    def address_of(self, cluster, name):
        """Where a process that was started by hand serves its page."""
        cluster.children[name].await_log("metrics http://")
        return re.search("metrics http://([^/\\s]+)", cluster.children[name].errors).group(1)

    def test_no_counter_falls_within_a_process(self):
        cluster = HandCluster(self, workers=2, shards=1, cluster__heartbeat_timeout_s=2,
                              metrics__listen="127.0.0.1:0", cluster__checkpoint_rounds=2, **ENDLESS)
        addresses = {name: self.address_of(cluster, name) for name in cluster.children}
        last, faults, rates, paces = {}, [], [], []
        begin = None  # of a second of the coordinator: its process, the time, the run's tokens

        def look():
            """Holds every counter of every page against the page before of the same process."""
            nonlocal begin
            for process, address in addresses.items():
                page = scrape(address)
                started = total(page, "process_start_time_seconds")
                if process == "coordinator" and page is not None:
                    here = started, time.monotonic(), total(page, "longwave_coordinator_tokens_total")
                    if begin is None or begin[0] != started:
                        begin = here
                    elif here[1] >= begin[1] + 1:
                        paces.append((here[2] - begin[2]) / (here[1] - begin[1]))
                        begin = here
                for (name, labels), value in samples(page or "").items():
                    key = process, started, name, labels
                    if re.search("_(total|bucket|count)$", name):
                        if value < last.get(key, 0):
                            faults.append(f"{name} {sorted(labels)} of {process}: {last[key]}, then {value}")
                        last[key] = value
                    elif name == "longwave_coordinator_worker_tokens_per_second" and ("stat", "max") in labels:
                        rates.append(value)

        def of_coordinator(name, **labels):
            look()
            return total(scrape(addresses["coordinator"]), f"longwave_coordinator_{name}", **labels)

        def start_again(name):
            """And looks on for some rounds."""
            cluster.start_again(name)
            addresses[name] = self.address_of(cluster, name)
            self.await_that(lambda: of_coordinator("members_active") == 2)
            end = of_coordinator("rounds_finished_total") + 20
            self.await_that(lambda: of_coordinator("rounds_finished_total") > end)

        self.await_that(lambda: of_coordinator("rounds_finished_total") > 20 and len(rates) > 20)
        cluster.kill("worker-0")
        start_again("worker-0")
        cluster.kill("worker-0")
        self.await_that(lambda: of_coordinator("members", state="lost") == 1)
        shutil.rmtree(self.root / "state/worker-0")
        start_again("worker-0")
        for name in ("shard-0", "coordinator"):
            cluster.kill(name)
            start_again(name)
        self.assertEqual(faults, [])
        # The counts of a folder are from before its process began.
        self.assertLess(max(rates), 4 * max(paces))

    def test_a_loss_that_is_not_finite_is_counted_where_its_worker_has_gone(self):
        # Each step multiplies every weight by 1 - 10 x 10, beyond fp32 after about twenty steps.
        cluster = HandCluster(self, workers=1, shards=1, run__preset="diloco", run__steps=60, sync__inner_steps=60,
                              train__learning_rate=10, train__weight_decay=10, train__warmup_steps=0,
                              train__final_learning_rate_share=1, metrics__listen="127.0.0.1:0")
        address = self.address_of(cluster, "coordinator")
        counter = "longwave_coordinator_losses_not_finite_total"
        self.assertIn((counter, "training"), [(name, dict(labels).get("loss")) for name, labels
                                              in samples(self.page(address))], "it is there before it counts")
        _, errors = self.ends(cluster.children["worker-0"], 1)
        self.assertIn("finite", errors)
        # The coordinator may count the worker's last heartbeat after the worker's end.
        self.await_that(lambda: total(scrape(address), counter, loss="training") > 0)
        page = self.page(address)
        self.assertEqual((total(page, counter, loss="training"), total(page, counter, loss="validation")), (1, 0))

    def test_nothing_listens_if_told_so(self):
        done = self.up("--set", "metrics.listen=")
        self.assertEqual(done.status, 0, done.output + done.errors)
        self.assertFalse((done.folder / "prometheus-targets.json").exists())
        for log in (done.folder / "logs").iterdir():
            self.assertNotIn("metrics http", log.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
