"""The programs `longwave` and `longwave-server`, which lie beside this file, as commands of the environment.

A package of its own: `import longwave` would load ctypes, which a service may not be allowed.
"""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn


def longwave() -> NoReturn:
    _become("longwave")


def longwave_server() -> NoReturn:
    _become("longwave-server")


def _become(name: str) -> NoReturn:
    # Python ignores these, and the program would, too.
    for each in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(each, signal.SIG_DFL)
    os.execv(Path(__file__).with_name(name), [name, *sys.argv[1:]])
