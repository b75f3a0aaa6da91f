"""The package and the examples as mypy sees them."""

import os
import subprocess
import sys
import unittest

from workers import EXAMPLES, ROOT


class Types(unittest.TestCase):
    def check(self, *arguments, cwd):
        done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", os.fspath(ROOT / "build/python/mypy"),
                               *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_package_is_strictly_typed(self):
        self.check("--strict", cwd=ROOT / "python")

    def test_the_examples_use_it_as_it_is_typed(self):
        for path in sorted(EXAMPLES.glob("*.py")):
            with self.subTest(path.name):
                self.check("--config-file=", "--follow-imports=silent", "--ignore-missing-imports", path.name, cwd=EXAMPLES)


if __name__ == "__main__":
    unittest.main()
