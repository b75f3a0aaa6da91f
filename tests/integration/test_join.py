"""`longwave join` and `doctor` against a secured run of real processes on this machine: a worker with
credentials made by hand, and one that comes with a token."""

import json
import os
import re
import time
import unittest

from harness import BIN, DEADLINE_S, Child, IntegrationTest, longwave
from secured import SecuredTest


class Join(SecuredTest):
    def setUp(self):
        super().setUp()
        self.start_run(run__steps=240, run__workers=2)

    def start_worker_by_hand(self):
        return self.start("longwave-worker", "--config", self.config, "--coordinator", self.address,
                          "--name", "by-hand", "--run-dir", self.place, "--state-dir",
                          self.state / "by-hand", "--set",
                          f"security.folder={self.credentials('worker/by-hand')}")

    def join(self, *arguments, folder="joined"):
        return self.start("longwave", "join", self.address, "--state-dir", self.root / folder,
                          "--device", "cpu", *arguments)

    def test_a_token_is_all_that_a_machine_needs(self):
        token = self.token()
        by_hand = self.start_worker_by_hand()
        joined = self.join("--token", token, "--name", "by-token")
        joined.await_line("ready ")
        for child in (by_hand, joined):
            _, errors = self.ends(child)
            self.assertRegex(errors, r"round  1/30  step   8/240  loss \d\.\d{3} .* tokens/s  pushed +[\d.]+ k?B  "
                                     r"pulled +[\d.]+ k?B  left \d+:\d\d\n")
            self.assertRegex(errors, r"round 30/30  step 240/240 .* left 0:00\n")
        folder = self.root / "joined"
        for name in ("join.json", "config.yaml", "security/tls.crt", "security/tls.key"):
            self.assertTrue((folder / name).exists(), name)
        self.assertEqual((folder / "security/tls.key").stat().st_mode & 0o777, 0o600)
        records = [json.loads(line) for line in
                   (self.place / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        self.assertTrue(records)
        self.assertTrue(all(record["replicas_equal"] and record["members"] == 2
                            for record in records), records)

        # A worker that comes to a finished run is told so, without an error.
        for arguments in (("--token", self.token(), "--name", "after"), ()):
            output, _ = self.ends(self.join(*arguments, folder="after"))
            self.assertIn("the run has finished", output)
        by_hand = self.start_worker_by_hand()
        _, errors = self.ends(by_hand)
        self.assertIn("the run is over (finished", errors)

        # The token is used up. Its holder learns that, and nothing else.
        _, errors = self.ends(self.join("--token", token, "--name", "late", folder="late"), 1)
        self.assertIn("longwave join: ", errors)
        self.assertIn("used", errors)
        self.assertNotIn(token, errors)
        self.assertFalse((self.root / "late" / "join.json").exists())

    def test_credentials_and_an_address_are_all_that_a_worker_needs(self):
        asks = ["longwave-worker", "--coordinator", self.address, "--run-dir", self.root]
        stranger = self.start(*asks, "--name", "stranger", "--set", "security.mode=off", "--set", "cluster.start_timeout_s=1")
        self.assertIn("does not tell its run", self.closing_sentence(stranger))
        by_hand = self.start_worker_by_hand()
        folder = self.credentials("worker/told")
        told = self.start(*asks, "--name", "told", "--set", "security.mode=on", "--set",
                          f"security.folder={folder}", "--set", "train.threads=1")
        for child in (by_hand, told):
            self.ends(child)

    def test_who_is_expelled_is_shown_as_that(self):
        self.start_run("endless", run__steps=1_000_000, run__workers=2)
        self.start_worker_by_hand()
        expelled = self.join("--token", self.token(), "--name", "trouble")
        expelled.await_log("round ")
        ask = (self.address, "--security", self.operator)
        self.assertNotIn("nobody", longwave("expel", self.address, "trouble", *ask[1:]).stdout)
        # The other worker may be behind for a moment.
        end = time.monotonic() + DEADLINE_S
        while True:
            output = longwave("status", *ask).stdout
            self.assertRegex(output, r"(?m)^trouble +expelled ")
            if re.search(r"(?m)^by-hand +(training|syncing|validating) ", output):
                break
            self.assertLess(time.monotonic(), end, output)
        self.assertEqual(expelled.finish()[0], 1)
        self.assertEqual(longwave("expel", self.address, "truoble", *ask[1:]).stdout,
                         "expelled truoble\nnobody has taken part under that name: `longwave status` shows the names of workers\n")

    def test_the_second_time_no_token_is_needed(self):
        joined = self.join("--token", self.token("--name", "again"), "--name", "again")
        joined.await_line("ready ")
        joined.process.terminate()
        self.ends(joined)
        again = self.join()
        again.await_line("joined   ")
        again.await_line("ready ")
        again.process.terminate()
        self.assertEqual(again.finish()[0], 0)

    def test_the_doctor_measures_every_link(self):
        joined = self.join("--token", self.token(), "--name", "patient")
        # The command examines the machine itself before it trains.
        # A machine that is busy has a slow link to itself, which is a warning.
        self.assertRegex(joined.await_line("shard 1"), "^(ok|warning) ")
        joined.await_line("ready ")
        done = longwave("doctor", "--state-dir", self.root / "joined", "--device", "cpu", "--json")
        findings = {finding["part"]: finding for finding in json.loads(done.stdout)["findings"]}
        self.assertEqual(list(findings), ["gpu", "driver", "libraries", "disk", "memory", "data",
                                          "clock", "coordinator", "shard 0", "shard 1"])
        for part in ("coordinator", "shard 0", "shard 1"):
            self.assertIn("bit/s up", findings[part]["what"])

    def test_a_stranger_hears_that_the_run_is_secured(self):
        output = longwave("doctor", self.address, "--device", "cpu").stdout
        self.assertRegex(output, r"(?m)^warning +coordinator .*the run is secured.*; remedy: join")
        self.assertRegex(output, r"(?m)^(ok|warning) +clock ")

    def test_the_doctor_looks_for_the_data_before_anybody_has_joined(self):
        for data, verdict in ((self.text, "ok"), ("/nowhere", "failed"), (self.root / "empty", "failed")):
            (self.root / "empty").mkdir(exist_ok=True)
            for command in (["doctor"], ["join", self.address, "--token", self.token(), "--dry-run", "--state-dir", self.root / "dry"]):
                with self.subTest(command=command[0], data=data):
                    done = longwave(*command, "--device", "cpu", "--data", data, wanted=int(verdict != "ok"))
                    self.assertRegex(done.stdout, rf"(?m)^{verdict} +data ")

    def test_a_dry_run_redeems_nothing(self):
        token = self.token()
        done = longwave("join", self.address, "--token", token, "--device", "cpu", "--dry-run", "--state-dir", self.root / "dry")
        self.assertIn("would redeem the token and run ", done.stdout)
        self.assertNotIn(token, done.stdout + done.stderr)
        self.assertFalse((self.root / "dry").exists())
        listed = longwave("token", "list", self.address, "--security", self.operator).stdout
        self.assertIn(token.split(".")[1], listed)
        self.assertRegex(listed, r"0/ +1")

    @unittest.skipUnless(os.geteuid() == 0, "hiding the machine's root certificates takes root")
    def test_a_machine_without_root_certificates_joins(self):
        hide = 'for folder in /etc/ssl /usr/share/grpc; do [ ! -d $folder ] || mount -t tmpfs none $folder; done; exec "$@"'
        child = Child("unshare", "--mount", "sh", "-c", hide, "sh", BIN / "longwave", "join", self.address, "--token",
                      self.token(), "--device", "cpu", "--dry-run", "--state-dir", self.root / "bare")
        output, _ = self.ends(child)
        self.assertIn("would redeem the token and run ", output)

    def test_a_failed_check_stops_it_and_can_be_mended(self):
        output, errors = self.ends(self.join("--token", self.token(), "--name", "mended", "--data", "/nowhere"), 1)
        self.assertRegex(output, r"(?m)^failed +data .*/nowhere.*; remedy: .*--data PATH")
        self.assertIn("its token is no longer needed", errors)
        mended = self.join("--data", self.text)
        mended.await_line("ready ")
        mended.process.terminate()
        self.assertEqual(mended.finish()[0], 0)


class JoinRefused(IntegrationTest):
    def join(self, *arguments):
        _, errors = self.ends(self.start("longwave", "join", *arguments, "--state-dir", self.root / "joined"), 1)
        self.assertTrue(errors.startswith("longwave join: "), errors)
        self.assertFalse((self.root / "joined" / "join.json").exists())
        return errors

    def test_bad_addresses_and_tokens(self):
        self.assertIn("wanted host:port", self.join("nowhere", "--token", "t"))
        self.assertIn("longwave token create", self.join("127.0.0.1:1"))
        self.assertIn("token", self.join("127.0.0.1:1", "--token", "lw1.short"))

    def test_a_coordinator_that_is_not_there(self):
        token = f"lw1.{'a' * 10}.{'b' * 26}.{'c' * 32}"
        errors = self.join("127.0.0.1:1", "--token", token)
        self.assertIn("127.0.0.1:1", errors)
        self.assertNotIn("b" * 26, errors)

    def test_a_run_that_is_not_secured(self):
        config = self.write_config()
        _, address = self.start_coordinator(config)
        self.join(address, "--token", f"lw1.{'a' * 10}.{'b' * 26}.{'c' * 32}")


if __name__ == "__main__":
    unittest.main()
