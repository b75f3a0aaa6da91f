"""The rows of docs/reference/checked.md, and the choice of the parts that a change needs."""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import check

FIRST, SECOND = check.BY_CHANGE[:2]
HEAD = "# What was checked\n\nFor developers.\n"


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page = pathlib.Path(folder.name) / "checked.md"
        self.page.write_text(HEAD)
        patch = mock.patch.object(check, "CHECKED", self.page)
        patch.start()
        self.addCleanup(patch.stop)

    def test_each_part_has_the_row_of_its_last_pass(self):
        check.record(check.Result(SECOND, 600, passed=7, skipped=1), "a" * 40)
        check.record(check.Result(FIRST, 60, passed=3), "b" * 40)
        check.record(check.Result(SECOND, 660, passed=8), "c" * 40)
        for failed in (check.Result(FIRST, 1, failed=1), check.Result(FIRST, 1, ended_well=False), check.Result(FIRST, 1, why_skipped="no")):
            check.record(failed, "d" * 40)
        rows = check.checked()
        self.assertEqual([rows[part.name][1:2] + rows[part.name][3:] for part in (FIRST, SECOND)],
                         [["b" * 40, "3", "0", "1"], ["c" * 40, "8", "0", "11"]])
        text = self.page.read_text()
        self.assertTrue(text.startswith(HEAD))
        self.assertEqual(text.count("| part |"), 1)

    def test_a_part_is_wanted_until_it_has_seen_what_it_depends_on(self):
        self.assertIn((FIRST, None, "it has not passed yet"), check.wanted_by(None))
        changes = {"a" * 40: [FIRST.depends_on[0] + "new.cc"], "b" * 40: ["docs/index.md"], "c" * 40: None}
        with mock.patch.object(check, "changed", changes.get):
            for commit, why in (("a" * 40, changes["a" * 40][0]), ("c" * 40, "a file that every build reads")):
                check.record(check.Result(FIRST, 60), commit)
                self.assertIn((FIRST, commit, why), check.wanted_by(None))
            check.record(check.Result(FIRST, 60), "b" * 40)
            self.assertNotIn(FIRST, [part for part, _, _ in check.wanted_by(None)])
            # A commit that the caller names stands for all rows.
            self.assertIn((FIRST, "a" * 40, changes["a" * 40][0]), check.wanted_by("a" * 40))

    def test_the_commands_know_the_base_if_the_clone_has_it(self):
        head = check.git("rev-parse", "HEAD").strip()
        for base, wanted in ((head, head), ("f" * 40, ""), (None, "")):
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                check.run(check.Part("based", 1, ('echo "base <$CHECK_BASE>"',)), 0, base)
            self.assertIn(f"base <{wanted}>", said.getvalue())

    def test_a_command_that_fails_ends_its_part_and_the_counts_add_up(self):
        part = check.Part("planted", 1, ("echo 3 passed, 1 failed", "echo 2 passed, 0 failed, 4 skipped; false", "echo 9 passed, 0 failed"))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            result = check.run(part, 0)
            status = check.finish([result], 0)
        self.assertEqual((result.passed, result.failed, result.skipped, result.ended_well, status), (5, 1, 4, False, 1))
        self.assertEqual(said.getvalue().splitlines()[-1], "5 passed, 1 failed, 4 skipped")

    def test_a_part_that_lacks_something_says_what(self):
        with contextlib.redirect_stdout(io.StringIO()):
            result = check.run(check.Part("lacking", 1, ("echo skipped: no nvcc; exit 77",)), 0)
        self.assertEqual((result.ended_well, result.why_skipped), (True, "skipped: no nvcc"))

    def test_an_unknown_part_is_named(self):
        ended = subprocess.run([sys.executable, "-B", check.ROOT / "tests/check/check.py", "part", "nothing"], capture_output=True, text=True)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("got part 'nothing', wanted one of: format and tidy", ended.stderr)


if __name__ == "__main__":
    unittest.main()
