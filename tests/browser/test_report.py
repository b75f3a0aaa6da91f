"""The report's page as a reader and his browser see it."""

import os
import subprocess
import unittest

from axe_core_python.selenium import Axe
from browser import SCREENSHOTS, BrowserTest
from made_run import make_run
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


class Report(BrowserTest):
    def open(self, *names, width=1000):
        page = self.folder / "page.html"
        done = subprocess.run([os.environ["LONGWAVE"], "report", *names, "--runs-dir", self.folder, "--out", page],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, f"{page}\n"), done.stderr)
        self.browser.set_window_size(width, 900)
        self.browser.get(page.as_uri())
        return page

    def test_figures_are_those_of_the_records(self):
        last = make_run(self.folder)[-1]
        self.open("made")
        summary = self.cells("Summary")
        self.assertEqual(summary["outcome"], ["finished"])
        self.assertEqual(summary["training loss"], [f"{last['train_loss']:.3f}"])
        self.assertEqual(summary["validation loss"], [f"{last['validation_loss']:.3f}"])
        self.assertEqual(summary["steps"], ["1.2 k of 1.2 k, a sync every 30"])
        self.assertEqual(summary["time of training"], ["5:00"])
        sent = self.cells("Bytes")
        self.assertEqual(sent["this run"], ["6.4 MB", "19.2 MB"])
        ddp = 1200 * 4 * 1_000_000 * 4
        self.assertEqual(sent["DDP, fp32 would have"], [f"{ddp / 1e9:.1f} GB, {ddp / last['bytes_pushed']:.0f} x",
                                                        f"{ddp / 1e9:.1f} GB, {ddp / last['bytes_pulled']:.0f} x"])
        workers = self.cells("Workers of made")
        self.assertEqual(list(workers), [f"worker-{i}" for i in range(4)])
        self.assertEqual(workers["worker-0"][:2], ["40", "86.7 %"])
        self.assertEqual(len(self.browser.find_elements(By.CSS_SELECTOR, "figure svg[role=img] path")), 2 + 4 + 2 + 2 * 4)
        self.assertEqual(self.browser.find_element(By.CSS_SELECTOR, "pre").text, "To be <i>or\nnot")
        self.assertIn("worker-0: no seed <b>bold</b>", self.browser.find_element(By.CSS_SELECTOR, "p.warning").text)
        self.assert_quiet()

    def test_axes_events_and_figures_follow_the_reader(self):
        make_run(self.folder)
        self.open("made")
        self.browser.find_element(By.XPATH, "//label[contains(., 'bytes sent')]/input").click()
        svg = self.browser.find_element(By.CSS_SELECTOR, "figure svg[role=img]")
        self.assertIn("against bytes sent", svg.get_attribute("aria-label"))
        svg.send_keys(Keys.HOME + Keys.ARROW_RIGHT)
        readout = self.browser.find_element(By.CSS_SELECTOR, ".readout").text
        self.assertRegex(readout, r"^bytes sent 320 kB: validation \d\.\d{3}, training \d\.\d{3}$")
        self.assertEqual(len(self.browser.find_elements(By.CSS_SELECTOR, ".events li")), 40)
        self.browser.find_element(By.CSS_SELECTOR, "option[value=warning]").click()
        self.assertEqual(len(self.browser.find_elements(By.CSS_SELECTOR, ".events li")), 4)
        self.assert_quiet()

    def test_runs_are_beside_each_other_with_what_differs(self):
        make_run(self.folder)
        make_run(self.folder, name="other", preset="diloco", rounds=20, params=2_000_000)
        self.open("made", "other")
        self.assertEqual(self.cells("Summary")["preset"], ["longwave", "diloco"])
        differing = self.cells("Keys that differ")
        self.assertEqual(differing["run.preset"], ["longwave", "diloco"])
        self.assertNotIn("run.seed", differing)
        self.assert_quiet()

    def test_it_is_readable_at_any_width_and_by_a_screen_reader(self):
        make_run(self.folder, workers=12)
        make_run(self.folder, name="other", preset="diloco")
        for names in (["made"], ["made", "other"]):
            for width in (360, 800, 1400):
                with self.subTest(width=width, runs=len(names)):
                    self.open(*names, width=width)
                    self.browser.set_window_size(width, 900)
                    overflow = self.browser.execute_script(
                        "return document.documentElement.scrollWidth - document.documentElement.clientWidth")
                    self.assertEqual(overflow, 0, "the page scrolls sideways")
                    found = Axe().run(self.browser)["violations"]
                    self.assertEqual([(each["id"], each["nodes"][0]["html"][:200]) for each in found], [])
                    self.assert_quiet()
                    height = self.browser.execute_script("return document.documentElement.scrollHeight")
                    self.browser.set_window_size(width, min(height, 12_000))
                    self.browser.save_screenshot(str(SCREENSHOTS / f"report-{len(names)}-{width}.png"))

    def test_a_long_run_is_thinned(self):
        records = make_run(self.folder, rounds=10_000, workers=64)
        page = self.open("made")
        self.assertLess(page.stat().st_size, 1_500_000)
        self.assertEqual(self.cells("Summary")["training loss"], [f"{records[-1]['train_loss']:.3f}"])
        self.assert_quiet()


if __name__ == "__main__":
    unittest.main()
