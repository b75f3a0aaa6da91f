"""The live page of `up` and `top`, with real processes, as its readers and intruders call it."""

import contextlib
import http.client
import json
import re
import ssl
import urllib.parse

from harness import DEADLINE_S, IntegrationTest, longwave

LONG = {"run__steps": 1_000_000, "sync__inner_steps": 4}


class Page:
    """A page's events. trust: a context of TLS."""

    def __init__(self, link, trust=None):
        where = urllib.parse.urlsplit(link)
        self.host, self.path, self.trust = where.netloc, where.path, trust

    def request(self, path, method="GET", host=None, more=()):
        made = http.client.HTTPSConnection(self.host, timeout=DEADLINE_S, context=self.trust) if self.trust else \
            http.client.HTTPConnection(self.host, timeout=DEADLINE_S)
        made.putrequest(method, path, skip_host=True)
        made.putheader("Host", host or self.host)
        for name, value in more:
            made.putheader(name, value)
        made.endheaders()
        return made.getresponse()

    def status_and_body(self, *arguments, **options):
        answer = self.request(*arguments, **options)
        return answer.status, answer.read().decode()

    def events(self):
        """(name, data) of each event, to the stream's end."""
        stream = self.request(self.path + "events")
        assert stream.status == 200, stream.status
        name = None
        for line in stream:
            key, _, value = line.decode().rstrip("\n").partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                yield name, json.loads(value)


class Web(IntegrationTest):
    def link_of(self, child):
        return re.search(r"https?://\S+$", child.await_line("page "))[0]

    def assert_gives_nothing_away(self, page, secret):
        """Whatever an intruder calls, no answer has any of the run."""
        begin = page.path + "events"
        for call, wanted in (
                (dict(path=begin, host="evil.example:80"), 421), (dict(path=begin, method="POST"), 405),
                (dict(path=page.path, method="DELETE"), 405), (dict(path="/metrics"), 404), (dict(path="/config.yaml"), 404),
                (dict(path=page.path + "../config.yaml"), 404)):
            status, body = page.status_and_body(**call)
            self.assertEqual(status, wanted, call)
            self.assertLess(len(body), 80, call)
            self.assertNotIn(secret, body)
        # Of a connection with unread bytes the answer may be lost.
        with contextlib.suppress(ConnectionError):
            self.assertEqual(page.status_and_body(begin, more=[("X", "x" * 20_000)]), (431, ""))

    def test_a_run_is_followed_to_its_end(self):
        child = self.start_up("--web", "127.0.0.1:0")
        page = Page(self.link_of(child))
        self.assertRegex(page.status_and_body(page.path)[1], r"^<!doctype html>")
        (name, whole), *news = page.events()
        self.assertEqual(name, "whole")
        self.assertEqual(whole["runs"][0]["name"], "test")
        self.assertEqual({name for name, _ in news}, {"news"})
        self.assertEqual([data["update"] for _, data in news], list(range(whole["update"] + 1, whole["update"] + 1 + len(news))))
        rounds = whole["runs"][0]["rounds"]
        for _, data in news:
            for column, values in data["run"]["rounds"].items():
                rounds[column] += values
        self.ends(child)
        lines = (self.root / "runs/test/metrics.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        for column in ("round", "step", "tokens", "bytes_pushed", "bytes_pulled", "members"):
            self.assertEqual(rounds[column], [float(f"{record[column]:.6g}") for record in records], column)
        self.assertEqual(news[-1][1]["run"]["summary"]["outcome"], "finished")
        self.assertEqual(len(news[-1][1]["run"]["workers"]), 2)

    def test_top_serves_it_and_an_intruder_gets_nothing(self):
        up = self.start_up(**LONG)
        up.await_line("round ")
        # The option without an address, before the run's name, would take that for one.
        top = self.start("longwave", "top", "test", "--runs-dir", self.root / "runs", "--plain", "--web", "127.0.0.1:0")
        page = Page(self.link_of(top))
        news = (data["run"] for name, data in page.events() if name == "news")
        self.assertEqual(next(news)["summary"]["outcome"], "training")
        self.assert_gives_nothing_away(page, "test")
        self.assertIsNone(top.process.poll())

    def test_beyond_loopback_it_wants_tls_and_a_token(self):
        done = longwave("up", self.write_config(), "--runs-dir", self.root / "runs", "--web", "0.0.0.0:0", wanted=1)
        self.assertIn("--web: got 0.0.0.0:0, which is not loopback, without --web-tls, wanted the folder", done.stderr)
        self.assertFalse((self.root / "runs").exists())
        longwave("certificate", "make", "--folder", self.root / "authority")
        longwave("certificate", "make", "--authority", self.root / "authority", "--folder", self.root / "web", "--role",
                 "worker/page", "--dns", "localhost")
        child = self.start_up("--web", "0.0.0.0:0", "--web-tls", self.root / "web", **LONG)
        link = self.link_of(child)
        self.assertRegex(link, r"^https://localhost:\d+/[0-9a-f]{32}/$")
        page = Page(link, ssl.create_default_context(cafile=self.root / "authority/ca.crt"))
        self.assertEqual(next(page.events())[0], "whole")
        self.assert_gives_nothing_away(page, "test")
        for path in ("/", "/events", page.path[:-2] + "/", "/" + "0" * 32 + "/events", page.path[:-1]):
            self.assertEqual(page.status_and_body(path), (404, "not found\n"))
        with self.assertRaises((OSError, http.client.HTTPException)):  # no plain HTTP there
            answer = http.client.HTTPConnection(page.host, timeout=DEADLINE_S)
            answer.request("GET", page.path)
            answer.getresponse()

    def test_an_address_that_cannot_be_had_starts_nothing(self):
        done = longwave("up", self.write_config(), "--runs-dir", self.root / "runs", "--web", "nonsense", wanted=1)
        self.assertIn("--web: cannot listen on nonsense", done.stderr)
        done = longwave("up", self.write_config(), "--runs-dir", self.root / "runs", "--web", "", wanted=1)
        self.assertIn("--web: got an empty text, wanted HOST:PORT", done.stderr)
        done = longwave("up", self.write_config(), "--web-tls", self.root, wanted=1)
        self.assertIn("--web", done.stderr)
        self.assertFalse((self.root / "runs").exists())
