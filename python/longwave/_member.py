"""A worker of a run, on numbers and addresses alone: longwave.h with Python's types. Without torch."""

import ctypes
import re
import sys
import threading
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Protocol, Sequence, Set, Tuple, Union, cast

from longwave import _library
from longwave._errors import UNAVAILABLE, LongwaveError
from longwave._library import check, library
from longwave._place import Place

Blob = Union[bytes, memoryview]


@dataclass
class Hooks:
    """Callbacks on the thread that is in begin, step or leave."""

    save: Callable[[], List[Tuple[str, Blob]]]
    gradient_ready: Callable[[], None]


class Link(Protocol):
    """Between the ranks of a node."""

    rank: int
    ranks: int

    def gather_bytes(self, mine: int, size: int, everyones: int, seconds: float) -> None:
        """Takes addresses: of `size` bytes, and of as many of each rank."""


def heartbeat_timeout_s(configuration: str) -> float:
    """cluster.heartbeat_timeout_s of a run's configuration."""
    found = re.search(r"^ *heartbeat_timeout_s: ([0-9.e+-]+)$", configuration, re.MULTILINE)
    if found is None:
        raise RuntimeError("the run's configuration has no cluster.heartbeat_timeout_s")
    return float(found.group(1))


def _bytes(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode()


class Member:
    """lw_member. An exception of a hook ends the call, which raises it."""

    def __init__(
        self,
        place: Place,
        tensors: Sequence[Tuple[str, Sequence[int]]],
        hooks: Hooks,
        link: Optional[Link] = None,
        alike: Sequence[Tuple[str, int, str]] = (),
    ) -> None:
        self._hooks = hooks
        self._link = link
        self._raised: Optional[BaseException] = None
        self._broken: Optional[Exception] = None  # the link's failure
        self._before: Optional[_library.Figures] = None  # the call under way
        self._saved: List[object] = []  # the memory of blobs, until the call that saves returns
        self.warned: Set[str] = set()  # kinds of warnings
        self._callbacks = _library.Callbacks(
            ctypes.sizeof(_library.Callbacks),
            None,
            _library.SaveFunction(self._save),
            _library.PlainFunction(self._take_gradient),
            _library.PlainFunction(self._ask),
        )
        self._node: Optional[_library.Node] = None  # owns the callback
        if link is not None:
            gather = _library.GatherFunction(self._gather)
            self._node = _library.Node(ctypes.sizeof(_library.Node), link.rank, link.ranks, None, gather)
        settings = (ctypes.c_char_p * len(place.settings))(*[setting.encode() for setting in place.settings])
        options = _library.Options(
            ctypes.sizeof(_library.Options),
            place.coordinator.encode(),
            place.name.encode(),
            _bytes(place.token),
            _bytes(place.state_dir),
            _bytes(place.metrics),
            settings,
            len(place.settings),
            ctypes.pointer(self._callbacks),
            None if self._node is None else ctypes.pointer(self._node),
            (_library.Alike * len(alike))(*[_library.Alike(name.encode(), hash, text.encode()) for name, hash, text in alike]),
            len(alike),
        )
        specs = (_library.Tensor * len(tensors))(
            *[
                _library.Tensor(name.encode(), (ctypes.c_int64 * len(shape))(*shape), len(shape))
                for name, shape in tensors
            ]
        )
        self._handle = ctypes.c_void_p()
        try:
            self._wait(library().lw_join, ctypes.byref(options), specs, len(specs), ctypes.byref(self._handle))
            self.offsets = [check(library().lw_offset(self._handle, i)) for i in range(len(tensors))]
            self.run = _library.Run(ctypes.sizeof(_library.Run))
            check(library().lw_describe(self._handle, ctypes.byref(self.run)))
        except BaseException:  # of a signal's handler also where the call has succeeded
            self.close()
            raise

    def owned(self, rank: int) -> List[Tuple[int, int]]:
        """The ascending ranges of elements that the rank of the node syncs."""
        count = check(library().lw_owned(self._handle, rank, None, 0))
        ranges = (_library.Range * count)()
        check(library().lw_owned(self._handle, rank, ranges, count))
        return [(int(one.begin), int(one.end)) for one in ranges]

    def begin(self, theta: int, gradient: Optional[int], device: int, stream: Optional[int]) -> int:
        """Takes the addresses of the flat arrays, and the CUDA stream. Returns events (MOVED, SKIPPED, SYNCS, OVER)."""
        arrays = _library.Arrays(ctypes.sizeof(_library.Arrays), theta, gradient, device, stream)
        return self._wait(library().lw_begin, self._handle, ctypes.byref(arrays))

    def step(self, loss: float, tokens: int) -> int:
        """loss: NO_LOSS if it is not known."""
        return self._wait(library().lw_step, self._handle, loss, tokens)

    def pause(self) -> None:
        check(library().lw_pause(self._handle))

    def load(self, name: str) -> Optional[bytes]:
        """The last save of an earlier process of this worker; None if there is none."""
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        check(library().lw_load(self._handle, name.encode(), ctypes.byref(data), ctypes.byref(size)))
        return None if data.value is None else ctypes.string_at(data.value, size.value)

    def figures(self) -> _library.Figures:
        if self._before is not None:  # a signal's handler, or a state that is saved, asks inside a call
            return self._before
        return self._new_figures()

    def _new_figures(self) -> _library.Figures:
        figures = _library.Figures(ctypes.sizeof(_library.Figures))
        check(library().lw_stats(self._handle, ctypes.byref(figures)))
        return figures

    def configuration(self) -> str:
        self._new_figures()  # raises where the library answers nothing
        return str(library().lw_configuration(self._handle).decode())

    def warn(self, text: str) -> None:
        """Shows a sentence about this worker in the run's status, until the end. Call from any thread or callback."""
        if self._handle:
            check(library().lw_warn(self._handle, text.encode(errors="replace")))

    def stop(self) -> None:
        """Call from any thread or signal handler."""
        library().lw_stop(self._handle)

    def finish(self) -> None:
        self._wait(library().lw_finish, self._handle)

    def leave(self, failure: Optional[str] = None) -> None:
        text = None if failure is None else failure.encode(errors="replace")
        self._wait(library().lw_leave, self._handle, text)

    def close(self) -> None:
        # A signal's handler in between finds no member, and stops nothing.
        handle, self._handle = self._handle, ctypes.c_void_p()
        library().lw_close(handle)

    def _ask(self, _: Optional[int]) -> int:
        """Called while a call waits. Python runs its signal handlers at the first instruction of this function,
        Ctrl-C's among them. ctypes passes an exception of such a handler to sys.unraisablehook alone, and the call ends
        at the next callback."""
        return 0 if self._raised is None else 1

    def _wait(self, function: Callable[..., int], *arguments: Any) -> int:
        self._before = self._new_figures() if self._handle else None
        try:
            return self._wait_for(function, *arguments)
        finally:
            self._before = None

    def _wait_for(self, function: Callable[..., int], *arguments: Any) -> int:
        if threading.current_thread() is not threading.main_thread():  # the only one that handles signals
            return self._call(function(*arguments))
        before = sys.unraisablehook

        def keep(unraisable: Any) -> None:
            callbacks = (None, self._ask, self._gather, self._save, self._take_gradient)
            own = unraisable.object in callbacks and self._raised is None
            if own and threading.current_thread() is threading.main_thread():
                self._raised = unraisable.exc_value
            else:
                before(unraisable)

        sys.unraisablehook = keep
        try:
            result = function(*arguments)
        finally:
            sys.unraisablehook = before
        return self._call(result)

    def _call(self, result: int) -> int:
        self._saved.clear()
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        broken, self._broken = self._broken, None
        try:
            return check(result)
        except LongwaveError as error:
            if broken is not None and result == UNAVAILABLE:
                raise error from broken
            raise

    def _guard(self, hook: Callable[[], None]) -> int:
        try:
            hook()
        except BaseException as error:  # no exception may pass through C
            self._raised = error
            return 1
        return 0

    def _take_gradient(self, _: Optional[int]) -> int:
        return self._guard(self._hooks.gradient_ready)

    def _gather(self, _: Optional[int], mine: int, size: int, everyones: int, seconds: float) -> int:
        try:
            assert self._link is not None
            self._link.gather_bytes(mine, size, everyones, seconds)
        except Exception as error:  # the call fails with the library's sentence
            self._broken = error
            return 1
        except BaseException as error:  # of a signal handler
            self._raised = error
            return 1
        return 0

    def _save(self, _: Optional[int], state: Optional[int]) -> int:
        def add() -> None:
            for name, blob in self._hooks.save():
                view = memoryview(blob).cast("B")
                self._saved.append(view)
                # bytes objects are not writable, so ctypes gives no other way to their address.
                source = blob if isinstance(blob, bytes) else (ctypes.c_char * len(view)).from_buffer(view)
                self._saved.append(source)
                address = ctypes.cast(cast(Any, source), ctypes.c_void_p)
                check(library().lw_save(state, name.encode(), address, len(view)))

        return self._guard(add)
