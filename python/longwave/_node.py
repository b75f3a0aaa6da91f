"""A node: the ranks of torch.distributed's process group, which are one worker of the run together."""

import ctypes
import datetime
import os
import time
import zlib
from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from longwave._errors import STATUS_NAMES, UNAVAILABLE, LongwaveError
from longwave._place import Place

RANKS_MAX = 64
PAUSE_S = 30 * 86400.0
SLICE_S = 0.1  # Python runs signal handlers between two waits for a work
GRACE_S = 1.0  # after which a work that has not heeded its own limit is late


def has_process_group() -> bool:
    return dist.is_available() and dist.is_initialized()


class Node:
    """The rank's end of the link between the ranks: gloo groups of Longwave's own for the member's messages and for
    tensors of the host, and the default group for tensors of GPUs. All ranks make the same calls in the same order.
    The groups are two, since a rank that has failed inside an exchange of tensors goes on to the messages of its
    leave, and gloo aborts a process whose peer sends it as a part of a call more bytes than the call has."""

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()
        if self.ranks > RANKS_MAX:
            raise ValueError(f"process group: got {self.ranks} ranks, wanted at most {RANKS_MAX} as one worker")
        self._c10d: Any = dist.distributed_c10d
        self._messages: Any = dist.new_group(backend="gloo")
        self._tensors: Any = dist.new_group(backend="gloo")
        self._patience_s = 0.0
        self._broken: Optional[LongwaveError] = None  # an exchange of tensors has failed
        self._held: Dict[Any, Tuple[Any, Any]] = {}  # by group: the last work, and its tensors
        self._is_limited = False
        self._limited: List[Tuple[Any, datetime.timedelta]] = []

    # The library's calls.

    def gather_bytes(self, mine: int, size: int, everyones: int, seconds: float) -> None:
        if self._broken is not None:  # the rank that is missing there would be waited for again
            raise self._broken
        # The loop may have another default device.
        own = torch.empty(size, dtype=torch.uint8, device="cpu")
        gathered = torch.empty((self.ranks, size), dtype=torch.uint8, device="cpu")
        # A late work may still use the tensors after this call, but not the library's memory.
        ctypes.memmove(own.data_ptr(), mine, size)
        self._gather(own, gathered, seconds)
        ctypes.memmove(everyones, gathered.data_ptr(), size * self.ranks)

    def _gather(self, own: torch.Tensor, gathered: torch.Tensor, seconds: float) -> None:
        options = self._c10d.AllgatherOptions()
        options.timeout = datetime.timedelta(seconds=seconds)
        rows = list(gathered)
        self._await(self._messages, self._messages.allgather([rows], [own], options), [own, *rows], seconds)

    # Traffic of Sync and the replica.

    def agree(self, place: Place, shapes: Sequence[Tuple[str, Sequence[int]]], keep: Iterable[str]) -> Place:
        """The place of the node. ValueError at all ranks if their names, folders, models or kept objects differ."""
        folder = None if place.state_dir is None else os.path.abspath(place.state_dir)
        layout = zlib.crc32(repr(list(shapes)).encode())
        mine = _Card(place.name if place.is_named else None, place.name, len(shapes), layout, folder, sorted(keep))
        cards: List[Any] = [None] * self.ranks
        dist.all_gather_object(cards, mine, group=self._messages)
        first = cards[0]
        for rank, card in enumerate(cards):
            for field, (show, sentence) in _DIFFERENCES.items():
                got, wanted = getattr(card, field), getattr(first, field)
                if got != wanted:
                    raise ValueError(sentence.format(got=show(got), rank=rank, first=show(wanted)))
        return replace(place, name=first.name_or_own)  # without a name of the caller's, rank 0's

    def set_patience(self, seconds: float) -> None:
        """How long a rank may be behind the others."""
        self._patience_s = seconds

    def limit_default_group(self) -> None:
        """The patience holds from here on also in the default group's own work, the averaging of gradients for
        example. Call after the first step, whose length is not known before: ranks may compile."""
        if self._is_limited:
            return
        self._is_limited = True
        limit = datetime.timedelta(seconds=self._patience_s)
        group: Any = dist.group.WORLD
        for backend in {group._get_backend(device) for device in group._device_types}:
            options = getattr(backend, "options", None)
            before = getattr(options, "_timeout", None)
            if before is not None and before > limit and hasattr(backend, "_set_default_timeout"):
                backend._set_default_timeout(limit)
                self._limited.append((backend, before))

    def lift_limit(self) -> None:
        """The default group has its own patience again."""
        limited, self._limited = self._limited, []
        for backend, before in limited:
            backend._set_default_timeout(before)
        self._is_limited = False

    def await_all(self, has_failed: bool = False) -> None:
        """Waits until all ranks have called, however long that takes. LongwaveError: one has failed or ended, and the
        ranks exchange nothing more. A rank that has failed raises nothing, and waits for the others no longer than the
        patience."""
        own = torch.tensor([has_failed], dtype=torch.uint8, device="cpu")
        everyones = torch.zeros((self.ranks, 1), dtype=torch.uint8, device="cpu")
        try:
            self._gather(own, everyones, self._patience_s if has_failed else PAUSE_S)
            failed = everyones.flatten().nonzero().flatten().tolist()
            if failed:
                self._broken = LongwaveError(f"node: rank {failed[0]} has failed in a pause", UNAVAILABLE)
        except RuntimeError as error:
            self._broken = LongwaveError(f"node: a rank has ended in a pause: {error}", UNAVAILABLE)
        if self._broken is not None and not has_failed:
            raise self._broken

    def close(self) -> None:
        """The default group has its own patience again, and Longwave's groups end."""
        self.lift_limit()
        groups, held = (self._messages, self._tensors), self._held
        self._messages = self._tensors = None
        self._held = {}
        for group in groups:
            work, _ = held.get(group, (None, None))
            # The group's end would wait for a late work, for as long as the missing rank may take.
            is_late = work is not None and not work.is_completed()
            if not is_late and has_process_group() and group in self._c10d._world.pg_map:
                dist.destroy_process_group(group)

    def broadcast(self, tensor: torch.Tensor) -> None:
        options = self._limit(self._c10d.BroadcastOptions())
        options.rootRank = 0
        self._run([tensor], lambda group: group.broadcast([tensor], options))

    def all_gather(self, gathered: torch.Tensor, mine: torch.Tensor) -> None:
        """gathered: [ranks, size of mine]."""
        options = self._limit(self._c10d.AllgatherOptions())
        rows = list(gathered)
        self._run([mine, *rows], lambda group: group.allgather([rows], [mine], options))

    def all_to_all(
        self, received: torch.Tensor, received_counts: List[int], sent: torch.Tensor, sent_counts: List[int]
    ) -> None:
        """Flat tensors: the parts for and from each rank, by rank."""
        options = self._limit(self._c10d.AllToAllOptions())
        self._run([sent, received], lambda group: group.alltoall_base(received, sent, received_counts, sent_counts, options))

    def _limit(self, options: Any) -> Any:
        options.timeout = datetime.timedelta(seconds=self._patience_s)
        return options

    def _run(self, tensors: Sequence[torch.Tensor], begin: Callable[[Any], Any]) -> None:
        try:
            if tensors[0].device.type == "cpu":
                self._await(self._tensors, begin(self._tensors), tensors, self._patience_s)
            else:
                begin(dist.group.WORLD).wait()
        except RuntimeError as error:
            self._broken = LongwaveError(
                f"node: a rank has ended, or has not come within {self._patience_s:g} s: {error}", UNAVAILABLE
            )
            raise self._broken from error

    def _await(self, group: Any, work: Any, tensors: Sequence[torch.Tensor], seconds: float) -> None:
        """Raises RuntimeError: the work has failed, or is late."""
        # gloo's thread lets go of them a moment after the work is done. As the last owner it needs Python's lock, which
        # aborts the process if Python is being finalized (seen in PyTorch 2.11: decref_pyobject in gloo's run loop).
        self._held[group] = (work, tensors)
        end = time.monotonic() + seconds + GRACE_S
        while True:
            try:
                work.wait(datetime.timedelta(seconds=SLICE_S))
                return
            except RuntimeError:
                if work.is_completed():
                    work.wait()
                    return
                if time.monotonic() >= end:
                    raise


class _Card(NamedTuple):
    """The name, model, folder and kept objects of a rank that joins."""

    name: Optional[str]  # of the caller or the environment
    name_or_own: str
    parameters: int  # trained ones
    layout: int  # a hash of their names and shapes
    folder: Optional[str]
    keep: List[str]


def _shown(text: Optional[str]) -> str:
    return "none" if text is None else repr(text)


def _listed(names: List[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


# By the card's field: how its value is shown, and the sentence where two ranks differ in it.
_DIFFERENCES: Dict[str, Tuple[Callable[[Any], str], str]] = {
    "name": (_shown, "name: got {got} at rank {rank} and {first} at rank 0, wanted one for all: the ranks of a process "
             "group are one worker"),
    "parameters": (str, "model: got {got} trained parameters at rank {rank} and {first} at rank 0, wanted the same model"),
    "layout": (str, "model: got other names or shapes of parameters at rank {rank} than at rank 0, wanted the same model"),
    "folder": (_shown, "state_dir: got {got} at rank {rank} and {first} at rank 0, wanted one folder, which all ranks can "
               "read"),
    "keep": (_listed, "keep: got {got} at rank {rank} and {first} at rank 0, wanted the same names"),
}


def is_of_a_rank(error: BaseException) -> bool:
    """Whether the error is raised because another rank has ended or hangs: by torch.distributed, the exchange of
    tensors or the library."""
    if isinstance(error, LongwaveError):
        return error.status == STATUS_NAMES[UNAVAILABLE]
    kind = getattr(dist, "DistError", None)
    if kind is not None and isinstance(error, kind):
        return True
    return isinstance(error, RuntimeError) and "gloo" in str(error)


def node_of(is_sharded: bool) -> Optional[Node]:
    """None: this process is a worker of its own."""
    if not has_process_group():
        if is_sharded:
            raise ValueError(
                "model: got DTensors and no process group, wanted torch.distributed.init_process_group before Sync"
            )
        return None
    return Node() if dist.get_world_size() > 1 or is_sharded else None
