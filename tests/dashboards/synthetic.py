"""A run that is not there: pages with every series of the table, for queries that no training here can feed
(a GPU's memory, refused strangers)."""

import hashlib
import http.server
import json
import threading
import time

RUN = "synthetic"
# Two runs of one name: pages say nothing of their namespace, Prometheus' targets do.
NAMESPACES = ("one", "two")
BEGAN_S = time.time()
PAGES = {"coordinator": [{"part": "coordinator"}],
         "shard": [{"part": "shard", "shard": str(index)} for index in range(2)],
         "worker": [{"part": "worker", "worker": f"worker-{index}"} for index in range(2)]}


def _combinations(labels):
    """Every choice of a value for each label; labels without values get one."""
    chosen = [{}]
    for label, values in labels.items():
        if label != "le":
            chosen = [{**one, label: value} for one in chosen for value in values or ["any"]]
    return chosen


def _spread(text):
    """A number between 0.1 and 1 that is always the same for this text."""
    return 0.1 + 0.9 * hashlib.sha256(text.encode()).digest()[0] / 255


def page(table, part, own, age_s):
    """The page of such a process at that age: counters grow steadily, gauges are constant."""
    lines = []
    named = {"run": RUN, **{key: value for key, value in own.items() if key != "part"}}
    for name, series in table.items():
        if series.part not in (part, "every"):
            continue
        for labels in _combinations(series.labels):
            labels = {**named, **labels}
            if "part" in series.labels and labels["part"] != part:
                continue
            pace = _spread(name.rsplit("_", 1)[0] if series.kind == "histogram" else name + str(labels))
            if name == "longwave_certificate_expiry_timestamp_seconds":
                value = time.time() + 1e6 * pace
            elif name == "process_start_time_seconds":
                value = BEGAN_S
            else:
                value = pace if series.kind == "gauge" else pace * age_s
            if name.endswith("_bucket"):
                for place, bound in enumerate([*series.buckets, "+Inf"]):
                    share = min(1, (place + 1) / 4)
                    lines.append(_line(name, {**labels, "le": str(bound)}, value * share))
            else:
                lines.append(_line(name, labels, value))
    return "\n".join(lines) + "\n"


def _line(name, labels, value):
    return "%s{%s} %r" % (name, ",".join(f'{key}="{text}"' for key, text in labels.items()), value)


class Synthetic:
    """Serves the pages of all processes; `targets` becomes a file_sd file of them."""

    def __init__(self, table, targets):
        self._began = time.monotonic()
        pages = [(part, own) for part, owners in PAGES.items() for own in owners]

        class Handler(http.server.BaseHTTPRequestHandler):
            began = self._began

            def do_GET(self):
                part, own = pages[int(self.path.split("/")[1])]
                body = page(table, part, own, time.monotonic() - self.began).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        address = "127.0.0.1:%d" % self._server.server_address[1]
        targets.write_text(json.dumps([
            {"targets": [address], "labels": {"__metrics_path__": f"/{index}", "namespace": namespace,
                                               "instance": f"{namespace}-page-{index}"}}
            for namespace in NAMESPACES for index in range(len(pages))]), encoding="utf-8")

    def close(self):
        self._server.shutdown()
        self._server.server_close()
