"""The live page of a run, which a real browser follows while its server comes and goes."""

import json
import os
import re
import subprocess
import unittest

from axe_core_python.selenium import Axe
from browser import SCREENSHOTS, BrowserTest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

LONGWAVE = os.environ["LONGWAVE"]
PATIENCE_S = 90


class Live(BrowserTest):
    def start(self, *arguments):
        child = subprocess.Popen([LONGWAVE, *arguments, "--runs-dir", self.folder / "runs", "--plain"], stdout=subprocess.PIPE, text=True)

        def end():
            child.kill()
            child.wait()
            child.stdout.close()
        self.addCleanup(end)
        return child

    def serve(self, address):
        child = self.start("top", "test", "--web", address)
        return child, re.search(r"http://(\S+)/$", next(line for line in child.stdout if line.startswith("page ")))[0]

    def await_(self, condition, what):
        WebDriverWait(self.browser, PATIENCE_S, poll_frequency=0.2).until(lambda _: condition(), what)

    def state(self):
        return self.browser.find_element(By.ID, "live").text

    def rounds(self):
        """How many rounds worker-0 has done, as the page shows it; the page may be drawn anew meanwhile."""
        return self.browser.execute_script(
            "const row = document.querySelector(\"[aria-label='Workers of test'] tbody td\");"
            "const [number, thousands] = (row ? row.textContent : '').split(' ');"
            "return (Number(number) || 0) * (thousands ? 1000 : 1)")

    def test_figures_come_and_a_lost_server_is_said(self):
        (self.folder / "text.txt").write_text("It was a dark and stormy night. " * 3000, encoding="utf-8")
        config = {"run": {"workers": 2, "shards": 1, "steps": 1_000_000},
                  "model": {"kind": "gpt", "d_model": 32, "layers": 1, "heads": 2, "context": 32},
                  "train": {"batch": 4}, "sync": {"inner_steps": 16}, "data": {"path": str(self.folder / "text.txt")}}
        (self.folder / "run.yaml").write_text(json.dumps(config), encoding="utf-8")
        up = self.start("up", self.folder / "run.yaml", "--name", "test", "--no-state")
        next(line for line in up.stdout if line.startswith("round "))

        server, link = self.serve("127.0.0.1:0")
        self.browser.set_window_size(800, 900)
        self.browser.get(link)
        self.await_(lambda: self.state() == "Live.", "the page is live")
        self.await_(lambda: self.rounds() > 0, "figures appear")
        records = [json.loads(line) for line in (self.folder / "runs/test/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        self.assertGreater(len(records), 0)
        self.assertEqual(self.cells("Summary")["outcome"], ["training"])
        self.assertEqual(self.cells("Summary")["workers, shards"], ["2, 1"])

        # The page's news leave a reader's choices as they are.
        # By a script, since the page may be drawn anew between a look and a click of the driver's.
        self.browser.execute_script("document.querySelectorAll('input[name=loss-against]')[2].click()")
        self.browser.execute_script("const all = document.querySelector('details summary'); all.focus(); all.click()")
        before = self.rounds()
        self.await_(lambda: self.rounds() > before, "rounds go on")
        self.assertIn("against bytes sent", self.browser.execute_script(
            "return document.querySelector('figure svg[role=img]').getAttribute('aria-label')"))
        self.assertTrue(self.browser.execute_script("return document.querySelector('details').open"))
        self.assertEqual(self.browser.execute_script("return document.activeElement.tagName"), "SUMMARY")
        self.assert_quiet((link, "data:"))
        for width in (360, 800, 1400):
            self.browser.set_window_size(width, 900)
            self.assertEqual(self.browser.execute_script(
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0, width)
            self.browser.save_screenshot(str(SCREENSHOTS / f"live-{width}.png"))
        self.assertEqual([each["id"] for each in Axe().run(self.browser)["violations"]], [])

        server.kill()
        server.wait()
        self.await_(lambda: self.state().startswith("The server does not answer."), "the page says that its server has gone")
        kept = self.rounds()
        self.assertGreater(kept, before)
        # The page's errors are those of its calls.
        self.assertEqual([entry["message"] for entry in self.browser.get_log("browser") if "net::ERR_" not in entry["message"]], [])

        self.serve(link.split("/")[2])
        self.await_(lambda: self.state() == "Live.", "the page goes on")
        self.await_(lambda: self.rounds() > kept, "figures go on")
        self.browser.get_log("browser")
        subprocess.run([LONGWAVE, "stop", "test", "--runs-dir", self.folder / "runs"], check=True, stdout=subprocess.DEVNULL)
        self.await_(lambda: self.state() == "The run is over: stopped.", "the page says that the run is over")
        self.assertEqual(self.cells("Summary")["outcome"], ["stopped"])


if __name__ == "__main__":
    unittest.main()
