"""A run's replicas are the same bits whether its workers are C or Python: tests/unit and tests/abi hold C to C++."""

import pathlib
import subprocess
import sys

from harness import BIN
from sync_case import SyncCase

C_PROGRAM = BIN.parent / "tests/abi_linear_model"


class LinearModel(SyncCase):
    def fit(self, *workers):
        """The line that each prints, and the hash of the run's last state."""
        address = self.cluster(workers=len(workers), run__steps=200, train__learning_rate=0.3)
        started = [
            subprocess.Popen([*map(str, command), address, f"w{i}"], stdout=subprocess.PIPE, text=True)
            for i, command in enumerate(workers)
        ]
        lines = [process.communicate(timeout=120)[0] for process in started]
        self.assertEqual([process.returncode for process in started], [0] * len(workers))
        self.hand.assert_equal_replicas()
        return [*lines, self.hand.rounds()[-1]["state_hash"]]

    def test_in_python_is_to_the_bit_that_in_c(self):
        python = [sys.executable, pathlib.Path(__file__).with_name("linear_model.py")]
        if not C_PROGRAM.exists():
            self.skipTest(f"no {C_PROGRAM}: the C program is not built")
        expected = self.fit([C_PROGRAM], [C_PROGRAM])
        self.assertIn(" step 199\n", expected[0])
        self.assertEqual(self.fit([C_PROGRAM], python), expected)
        self.assertEqual(self.fit(python, python), expected)
