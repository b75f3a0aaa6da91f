"""Where the tests find the harness of the integration tests, whose processes they share."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
