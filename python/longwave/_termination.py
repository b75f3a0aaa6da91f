"""SIGTERM, a spot notice for example, ends the training of the process's members, unless the process has a handler of its
own."""

import os
import signal
import sys
import threading
import weakref
from types import FrameType
from typing import Optional

from longwave._member import Member
from longwave._steps import StepWatch

_members: "weakref.WeakKeyDictionary[Member, StepWatch]" = weakref.WeakKeyDictionary()
_process: Optional[int] = None


def watch(member: Member, steps: StepWatch) -> None:
    global _process
    _process = os.getpid()
    _members[member] = steps
    if _is_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _stop)


def unwatch(member: Member) -> None:
    """A handler that the script has set meanwhile stays."""
    _members.pop(member, None)
    if not _members and _is_main_thread() and signal.getsignal(signal.SIGTERM) is _stop:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _stop(number: int, frame: Optional[FrameType]) -> None:
    members = list(_members.items())
    if members and os.getpid() == _process:
        for member, steps in members:
            member.stop()
            steps.stop()
            member.warned.add("left")  # the signal ends the loop
        if all(steps.is_deaf for _, steps in members):
            sys.exit(128 + number)  # the members leave as at any exit
        return
    # The members have ended, or this is a loader's process, forked from theirs.
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
