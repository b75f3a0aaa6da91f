"""SIGTERM, a spot notice for example, ends the training of the process's members, unless the process has a handler of its
own."""

import os
import signal
import threading
import weakref
from types import FrameType
from typing import Optional

from longwave._member import Member

_members: "weakref.WeakSet[Member]" = weakref.WeakSet()
_process: Optional[int] = None


def watch(member: Member) -> None:
    global _process
    _process = os.getpid()
    _members.add(member)
    if _is_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _stop)


def unwatch(member: Member) -> None:
    """A handler that the script has set meanwhile stays."""
    _members.discard(member)
    if not _members and _is_main_thread() and signal.getsignal(signal.SIGTERM) is _stop:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _stop(number: int, frame: Optional[FrameType]) -> None:
    members = list(_members)
    if members and os.getpid() == _process:
        for member in members:
            member.stop()
        return
    # The members have ended, or this is a loader's process, forked from theirs.
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
