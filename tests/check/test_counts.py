"""The counts that tests/support/count_tests.py makes of the reports of ctest and of GoogleTest programs."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

COUNT = pathlib.Path(__file__).parents[1] / "support/count_tests.py"
CTEST = """<testsuite>
<testcase name="good_test" status="run"/>
<testcase name="bad_test" status="fail"><failure/><system-out>Expected: 1</system-out></testcase>
<testcase name="ended_test" status="fail"><failure/><system-out>Segmentation fault</system-out></testcase>
<testcase name="leaking_test" status="fail"><failure/><system-out>LeakSanitizer</system-out></testcase>
<testcase name="script" status="run"/>
<testcase name="no_gpu" status="notrun"><skipped message="no GPU"/></testcase>
</testsuite>"""
GOOD = """<testsuites><testsuite><testcase name="A" classname="S" status="run"/>
<testcase name="B" classname="S" status="run"><skipped message="no disk"/></testcase></testsuite></testsuites>"""
BAD = """<testsuites><testsuite><testcase name="A" classname="T" status="run"/>
<testcase name="B" classname="T" status="run"><failure/></testcase></testsuite></testsuites>"""
LEAKING = """<testsuites><testsuite><testcase name="A" classname="L" status="run"/></testsuite></testsuites>"""


class Counts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "ctest.xml").write_text(CTEST)

    def count(self, *arguments):
        return subprocess.run([sys.executable, COUNT, self.folder / "ctest.xml", *arguments], capture_output=True, text=True,
                              check=True).stdout

    def test_each_test_of_a_program_counts_once(self):
        for name, report in (("good_test", GOOD), ("bad_test", BAD), ("leaking_test", LEAKING)):
            (self.folder / f"{name}.xml").write_text(report)
        (self.folder / "ended_test.xml").write_text("<testsuites><testsuite>")  # cut off
        said = self.count(self.folder)
        # Passed: S.A, T.A, L.A and the script. Failed: T.B, the program that ended, the one that leaks.
        self.assertEqual(said.splitlines()[-1], "4 passed, 3 failed, 2 skipped", said)
        for line in ("failed: T.B", "failed: ended_test", "failed: leaking_test", "skipped: S.B: no disk", "skipped: no_gpu: no GPU",
                     "    Segmentation fault"):
            self.assertIn(line + "\n", said)

    def test_without_reports_of_programs_each_counts_as_one(self):
        self.assertEqual(self.count().splitlines()[-1], "2 passed, 3 failed, 1 skipped")


if __name__ == "__main__":
    unittest.main()
