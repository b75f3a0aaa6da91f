"""Warnings to the person whose loop it is."""

import logging
import os
import sys
from types import FrameType
from typing import Optional, Protocol, Set, Tuple

_log = logging.getLogger("longwave")

# A line of these packages is none that the loop's author can change.
_LIBRARIES = {
    "longwave", "torch", "transformers", "trl", "accelerate", "lightning", "pytorch_lightning", "contextlib", "threading",
    "weakref",
}


class Warned(Protocol):
    """A member of a run."""

    warned: Set[str]  # kinds of warnings that it has had

    def warn(self, text: str) -> None: ...


def warn(text: str, kind: str, member: Optional[Warned] = None) -> None:
    """Logs the warning at the line of the loop that led to it, and shows it in the run's status; of each kind a member has
    one."""
    if member is not None:
        if kind in member.warned:
            return
        member.warned.add(kind)
    line, depth = _users_line()
    _log.warning("longwave: %s", line + text, stacklevel=depth)
    if member is not None:
        member.warn(line + text)


def _users_line() -> Tuple[str, int]:
    """The innermost line outside of libraries, and how far above warn() it is."""
    frame: Optional[FrameType] = sys._getframe(1)
    depth = 1
    while frame is not None:
        if str(frame.f_globals.get("__name__")).split(".")[0] not in _LIBRARIES:
            return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}: ", depth
        frame, depth = frame.f_back, depth + 1
    return "", 1
