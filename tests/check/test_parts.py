"""The parts name tests and folders that there are."""

import re
import unittest

import parts
from affected import ROOT, tracked


class Parts(unittest.TestCase):
    def test_what_a_part_depends_on_is_there(self):
        names = tracked()
        for part in parts.BY_CHANGE:
            for beginning in part.depends_on:
                self.assertTrue(any(name.startswith(beginning) for name in names), f"{part.name}: {beginning}")

    def test_names_are_unique(self):
        names = [part.name for part in parts.EVERY_CHANGE + parts.BY_CHANGE + parts.ALL_ONLY]
        self.assertEqual(len(names), len(set(names)))

    def test_tests_of_processes_are_in_the_list_of_ctest(self):
        listed = (ROOT / "tests/integration/CMakeLists.txt").read_text(encoding="utf-8")
        for name in parts.FAMILIES:
            suite, method = name.split(".")
            calls = re.findall(rf"longwave_integration_tests\(\w+ {suite}\s([^)]*)\)", listed)
            self.assertIn(method, " ".join(calls).split(), name)

    def test_tests_of_the_package_are_there(self):
        for name in parts.PYTHON.split():
            file, *rest = name.split("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            for part in rest:
                self.assertRegex(text, rf"(class|def) {part}\b", name)


if __name__ == "__main__":
    unittest.main()
