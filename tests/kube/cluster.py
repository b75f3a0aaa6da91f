"""kubectl and helm as functions, what a test waits for, and what it counts."""

import json
import os
import pathlib
import signal
import subprocess
import time


class Failed(Exception):
    """A step that the rest of the scenario needs has failed; its text says how."""


class Hopeless(Failed):
    """A failure that no waiting will mend."""


def command(*arguments, input=None, timeout=300, check=True):
    """Runs a program to its end; returns its output. Failed, with what it said."""
    done = subprocess.run([str(part) for part in arguments], input=input, text=True,
                          capture_output=True, timeout=timeout, check=False)
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(map(str, arguments[:6]))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def load_image(load, name):
    """Brings an image of buildah's store to the cluster: once more where that fails, since containerd was seen to collect
    a part of an image while it imported it ("content digest … not found")."""
    try:
        command(load, name)
    except Failed as failed:
        print(f"   again: {failed}", flush=True)
        command(load, name)


def chart_of(name):
    """The chart of this checkout, or of the release in LONGWAVE_DIST."""
    if "LONGWAVE_DIST" in os.environ:
        return next(pathlib.Path(os.environ["LONGWAVE_DIST"]).glob(f"{name}-[0-9]*.tgz"))
    return pathlib.Path(__file__).parents[2] / "helm" / name


def wait_until(what, condition, seconds, every=0.5):
    """Asks again and again until `condition` gives something true, which is returned. Kubernetes is asked in
    steps: what is waited for happens over there."""
    deadline = time.monotonic() + seconds
    said = ""
    while time.monotonic() < deadline:
        try:
            value = condition()
            if value:
                return value
        except Hopeless:
            raise
        except (Failed, subprocess.TimeoutExpired, KeyError, IndexError, ValueError) as error:
            said = f" ({error})"
        time.sleep(every)
    raise Failed(f"{what}: not within {seconds} s{said}")


class Checks:
    """The claims of a test, each said as it is found to hold or not."""

    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, claim, holds, detail=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
        print(f"{'ok  ' if holds else 'FAIL'}  {claim}{': ' + str(detail) if detail else ''}", flush=True)
        return holds

    def attempt(self, claim, action):
        """The claim holds if `action` returns; what it returns is the detail."""
        try:
            return self.check(claim, True, action())
        except (Failed, subprocess.TimeoutExpired) as error:
            return self.check(claim, False, error)

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed else 0


class Namespace:
    """A namespace of the cluster that KUBECONFIG names."""

    def __init__(self, name):
        self.name = name

    def kubectl(self, *arguments, **options):
        return command("kubectl", "-n", self.name, *arguments, **options)

    def helm(self, *arguments, **options):
        return command("helm", "-n", self.name, *arguments, **options)

    def get(self, *arguments):
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def apply(self, *objects):
        self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List",
                                                           "items": list(objects)}))

    def pods(self, *components):
        """The run's pods, or those of some of its parts; that of `helm test` is none."""
        parts = ",".join(components or ("coordinator", "shard", "worker"))
        return self.get("pods", "-l", f"app.kubernetes.io/name=longwave,app.kubernetes.io/component in ({parts})")["items"]

    def is_ready(self, pod, other_than=None):
        """Whether the pod is ready, and a new one."""
        found = self.get("pod", pod)
        if found["metadata"]["uid"] == other_than or "deletionTimestamp" in found["metadata"]:
            return False
        return any(condition["type"] == "Ready" and condition["status"] == "True"
                   for condition in found["status"].get("conditions", []))

    def uid(self, pod):
        return self.get("pod", pod)["metadata"]["uid"]

    def kill(self, pod):
        """Ends a pod without its grace; returns the uid that its successor does not have."""
        uid = self.uid(pod)
        self.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
        return uid


class Service:
    """A program that runs beside the test, on this machine."""

    def __init__(self, log, *arguments, environment=None):
        self.log = log
        with open(log, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen([str(part) for part in arguments], stdout=output,
                                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                            env={**os.environ, **(environment or {})})

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
