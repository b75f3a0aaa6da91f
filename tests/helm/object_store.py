"""The containers that bring a text from an object store and weights to one, as the chart has them, run here: rclone against a
stand-in for S3 (moto, of PyPI).

    object_store.py HELM CHART        under tests/helm/object_store.sh, which brings moto

Status 77 and a reason where there is no rclone."""

import contextlib
import logging
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import boto3
from moto.server import ThreadedMotoServer

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from schemas import yaml_to_json  # noqa: E402

DEADLINE_S = 60


def containers(helm, chart, *settings):
    """The worker's init containers by name."""
    values = [part for setting in settings for part in ("--set", setting)]
    text = subprocess.run([helm, "template", "run", chart, "--kube-version", "1.33.0", "-s",
                           "templates/worker/statefulset.yaml", *values], check=True, capture_output=True, text=True).stdout
    pod = next(iter(yaml_to_json(helm, [text])))["spec"]["template"]["spec"]
    mounted = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    return {one["name"]: one for one in pod["initContainers"]}, mounted


def start(container, places, secret):
    """The container's process, with what it sees at its paths elsewhere and with the Secret's variables."""
    assert container["envFrom"] == [{"secretRef": {"name": "store"}}], container
    environment = {"PATH": os.environ["PATH"], **secret, **{one["name"]: one.get("value", "") for one in container["env"]}}

    def here(word):
        # At once, since a place may have the name of another path.
        return re.sub("|".join(map(re.escape, places)), lambda path: str(places[path.group()]), word)
    words = [here(word) for word in (*container["command"], *container["args"])]
    return subprocess.Popen(words, env={name: here(value) for name, value in environment.items()}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_until(what, condition):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"object store: waited {DEADLINE_S} s in vain for {what}")
        time.sleep(0.2)


def main():
    helm, chart = sys.argv[1:]
    if not shutil.which("rclone"):
        print("object store: skipped: there is no rclone here: Debian's package rclone has it")
        return 77
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://127.0.0.1:%d" % server.get_host_and_port()[1]
    secret = {"RCLONE_CONFIG_STORE_TYPE": "s3", "RCLONE_CONFIG_STORE_PROVIDER": "Minio",
              "RCLONE_CONFIG_STORE_ENDPOINT": endpoint, "RCLONE_CONFIG_STORE_ACCESS_KEY_ID": "id",
              "RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY": "key"}
    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="id",
                      aws_secret_access_key="key")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        ends.callback(server.stop)
        folder = pathlib.Path(folder)
        s3.create_bucket(Bucket="texts")
        s3.create_bucket(Bucket="models")
        text = os.urandom(3_000_000).hex()
        for name in ("a.txt", "more/b.txt"):
            s3.put_object(Bucket="texts", Key=f"books/{name}", Body=f"{name} {text}".encode())
        found, mounted = containers(helm, chart, "workers.objectStore.text=store:texts/books",
                                    "workers.objectStore.weights=store:models/mine", "workers.objectStore.secret=store")

        # The text, fetched into the worker's mounted folder before the worker starts.
        data = folder / "data"
        done = start(found["text"], {mounted["data"]: data, "/tmp/": f"{folder}/cache/"}, secret)
        said, _ = done.communicate(timeout=DEADLINE_S)
        assert done.returncode == 0, said
        for name in ("a.txt", "more/b.txt"):
            assert (data / name).read_text() == f"{name} {text}", name
        # A missing bucket: the pod does not start.
        wrong, _ = containers(helm, chart, "workers.objectStore.text=store:nothing/books", "workers.objectStore.secret=store")
        failed = start(wrong["text"], {mounted["data"]: folder / "none", "/tmp/": f"{folder}/cache/"}, secret)
        said, _ = failed.communicate(timeout=DEADLINE_S)
        assert failed.returncode != 0, said
        print("object store: the text is there before a worker starts")

        # The weights: stored when written and when changed, including those from just before the pod's end.
        state = folder / "state"
        (state / "run").mkdir(parents=True)
        assert found["weights"]["restartPolicy"] == "Always"
        sender = start(found["weights"], {"/var/lib/longwave": state, "/tmp/": f"{folder}/cache/"}, secret)
        ends.callback(sender.kill)

        def keys():
            return {one["Key"]: one["Size"] for one in s3.list_objects_v2(Bucket="models").get("Contents", [])}
        (state / "run/model.safetensors.tmp.7").write_bytes(b"half of it")
        (state / "run/config.json").write_text("{}")
        wait_until("config.json", lambda: keys() == {"mine/config.json": 2})
        (state / "run/model.safetensors").write_bytes(b"w" * 1000)
        wait_until("the weights", lambda: keys().get("mine/model.safetensors") == 1000)
        (state / "run/model.safetensors").write_bytes(b"v" * 2000)
        sender.send_signal(signal.SIGTERM)
        said, _ = sender.communicate(timeout=DEADLINE_S)
        assert sender.returncode == 0, said
        assert keys() == {"mine/config.json": 2, "mine/model.safetensors": 2000}, (keys(), said)
        print("object store: the weights are sent when they change, and at the end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
