"""The process's own workers: a notebook's cell that runs again makes another one of the same name."""

import contextlib
import os
import threading
import weakref
from typing import Any, Tuple

from longwave._errors import LongwaveError
from longwave._place import Place
from longwave._warning import warn

_joined: "weakref.WeakKeyDictionary[Any, Tuple[Place, int]]" = weakref.WeakKeyDictionary()  # by Sync: and its thread


def leave_earlier(place: Place) -> None:
    """Lets this thread's Sync of the same name or folder leave. RuntimeError: another thread has it."""
    for sync, (other, thread) in list(_joined.items()):
        is_same = (other.coordinator, other.name) == (place.coordinator, place.name)
        if not is_same and (place.state_dir is None or _folder(place) != _folder(other)):
            continue
        shown = f"name {other.name!r}" if is_same else f"state_dir {other.state_dir!r}"
        if thread != threading.get_ident():
            raise RuntimeError(
                f"{shown}: got a second Sync while another thread of this process has one, wanted a name and a folder of its own"
            )
        warn(
            f"{shown}: this process's earlier Sync has left the run, since a process has one worker of a name. A cell that runs "
            "again may rely on that; for two models at once make them one (torch.nn.ModuleList) or use two names",
            "earlier",
        )
        if sync.done:
            with contextlib.suppress(LongwaveError):  # how an earlier run ended
                sync.finish()
        else:
            sync._abandon(None)


def remember(sync: Any, place: Place) -> None:
    _joined[sync] = place, threading.get_ident()


def forget(sync: Any) -> None:
    _joined.pop(sync, None)


def _folder(place: Place) -> str:
    return os.path.realpath(place.state_dir or "")
