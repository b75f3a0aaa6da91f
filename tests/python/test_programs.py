"""The commands that the package brings. tests/dist/wheel.sh runs the programs themselves."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import longwave_programs


class Programs(unittest.TestCase):
    def test_a_command_becomes_the_program_with_its_arguments_and_signals_as_usual(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "longwave_programs")
            package.mkdir()
            shutil.copy(longwave_programs.__file__, package)
            for name in ("longwave", "longwave-server"):
                program = package / name
                program.write_text(f"#!/bin/sh\necho {name} \"$@\"\ngrep SigIgn /proc/self/status\n", encoding="utf-8")
                program.chmod(0o755)
                lines = [subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
                         for command in ([program, "a b", "c"],
                                         [sys.executable, "-c", f"import longwave_programs as p; p.{name.replace('-', '_')}()",
                                          "a b", "c"])]
                self.assertEqual(lines[0][0], f"{name} a b c")
                self.assertEqual(*lines)


if __name__ == "__main__":
    unittest.main()
