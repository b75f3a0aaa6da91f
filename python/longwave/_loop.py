"""Calls of the library to a loop: its states for a checkpoint, its inner optimizer."""

import contextlib
from typing import ContextManager, Dict, List, Optional, Tuple

import torch

from longwave._keep import Keeps, load_state, save_states
from longwave._member import Blob, Member
from longwave._node import Node
from longwave._replica import Replica
from longwave._warning import warn
from longwave.optimizer import Optimizer

# Names of a checkpoint's blobs.
KEPT = "kept."
IN_HOOK = "in_hook"
RANK = "rank"  # whose of how many the states are


class Loop:
    """The hooks for liblongwave.so, which live as long as the member: Sync may be dropped before."""

    def __init__(
        self, keep: Dict[str, Keeps], optimizer: Optional[torch.optim.Optimizer], node: Optional[Node], shards: bool
    ) -> None:
        self.keep = keep
        self.optimizer = optimizer
        self.shards = shards
        self._node = node
        rank, ranks = (0, 1) if node is None else (node.rank, node.ranks)
        self._rank = f"{rank}/{ranks}{' shards' if shards else ''}".encode()
        self.replica: Optional[Replica] = None
        self.in_hook = False

    def save(self) -> List[Tuple[str, Blob]]:
        states: List[Tuple[str, Blob]] = [(KEPT + name, blob) for name, blob in save_states(self.keep)]
        return [*states, (IN_HOOK, b"1" if self.in_hook else b"0"), (RANK, self._rank)]

    def load(self, member: Member) -> None:
        blobs = [(name, kept, member.load(KEPT + name)) for name, kept in self.keep.items()]
        before = member.load(RANK) or b"0/1"
        if before != self._rank and (self.shards or b"shards" in before):
            if any(blob is not None for _, _, blob in blobs):
                warn(
                    f"keep: the checkpoint has the states of rank {before.decode()}, and this is rank "
                    f"{self._rank.decode()}: objects whose states are divided among ranks begin anew",
                    "keep",
                    member,
                )
            return
        for name, kept, blob in blobs:
            if blob is not None:
                load_state(kept, blob, name)

    def on_device(self) -> ContextManager[None]:
        """Replica.on_device; there is no replica before the run's model has come."""
        return contextlib.nullcontext() if self.replica is None else self.replica.on_device()

    def gradient_ready(self) -> None:
        assert isinstance(self.optimizer, Optimizer) and self.replica is not None
        with self.replica.in_callback():
            self.replica.scatter_gradient()
            self.optimizer.step_merged(self._node)
            self.replica.gather()
