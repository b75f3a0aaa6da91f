"""A browser that a test looks through, and what it sees."""

import os
import pathlib
import re
import tempfile
import unittest

from selenium import webdriver

SCREENSHOTS = pathlib.Path(os.environ["SCREENSHOTS"])


class BrowserTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.browser = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
        self.addCleanup(self.browser.quit)

    def cells(self, table):
        """The rows of the table that is labelled so, at one time."""
        return self.browser.execute_script(
            "return Object.fromEntries([...document.querySelectorAll(`[aria-label='${arguments[0]}'] tbody tr`)].map((row) =>"
            "[row.querySelector('th').innerText, [...row.querySelectorAll('td')].map((cell) => cell.innerText)]))", table)

    def assert_quiet(self, own=("file:", "data:")):
        """No message on the console, and no request but for the page."""
        self.assertEqual(self.browser.get_log("browser"), [])
        requests = re.findall(r'"url\\?":\\?"([^"\\]+)', str([entry["message"] for entry in self.browser.get_log("performance")
                                                          if "Network.requestWillBeSent" in entry["message"]]))
        self.assertEqual([url for url in requests if not url.startswith(own)], [])
