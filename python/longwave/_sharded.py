"""A model that is divided among the ranks of a node by fully_shard: each rank has a part of each parameter's rows."""

from typing import Any, Dict, List, Optional, Sequence, Tuple, cast

import torch

from longwave._node import Node
from longwave._ranges import Range, common, pack, size, unpack
from longwave._replica import Replica, is_sharded, local


def check_shards(trained: Dict[str, torch.nn.Parameter], node: Node) -> None:
    """Raises ValueError for DTensors that are not what fully_shard makes of them over all of the node's ranks."""
    for name, parameter in trained.items():
        if not is_sharded(parameter):
            raise ValueError(
                f"{name}: got a whole tensor beside DTensors, wanted fully_shard of the whole model: it shards what the "
                "calls for its parts have left"
            )
        mesh, placements = cast(Any, parameter).device_mesh, cast(Any, parameter).placements
        if mesh.ndim != 1 or mesh.size() != node.ranks:
            raise ValueError(
                f"{name}: got a DTensor on a mesh of {mesh.ndim} dimensions and {mesh.size()} ranks, wanted one dimension "
                f"with all {node.ranks} ranks of the process group: between machines, Longwave is the dimension that "
                "replicates"
            )
        if len(placements) != 1 or not placements[0].is_shard(0):
            raise ValueError(f"{name}: got a DTensor with placements {placements}, wanted Shard(0), fully_shard's")
        rows = _rows(parameter, node.rank, node.ranks)
        with torch.no_grad():
            if len(local(parameter)) != rows[1] - rows[0]:
                raise ValueError(
                    f"{name}: got {len(local(parameter))} of {len(parameter)} rows at rank {node.rank}, wanted "
                    f"{rows[1] - rows[0]}, fully_shard's"
                )


def _rows(parameter: torch.Tensor, rank: int, ranks: int) -> Range:
    """The rank's rows, as torch.chunk divides them."""
    rows = len(parameter)
    chunk = -(-rows // ranks)
    return min(rank * chunk, rows), min((rank + 1) * chunk, rows)


class ShardedReplica(Replica):
    """Two flat arrays of 1/R of the elements each: of this rank's shards (the base class's), and of what it owns. A sync
    moves the elements between them, and from rank to rank where they differ."""

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        offsets: Sequence[int],
        sends_gradient: bool,
        node: Node,
        owned: Sequence[Sequence[Range]],
    ) -> None:
        """owned: of each rank."""
        order = sorted(range(len(parameters)), key=lambda i: offsets[i])
        parameters, offsets = [parameters[i] for i in order], [offsets[i] for i in order]
        shards = [_shards(parameters, offsets, rank, node.ranks) for rank in range(node.ranks)]
        mine = shards[node.rank]
        super().__init__(parameters, _places(mine), size(mine), sends_gradient, alias=False)
        self._node = node
        own = owned[node.rank]
        self._begin, end = (own[0][0], own[-1][1]) if own else (0, 1)
        pinned = self.theta.is_pinned()
        self._owned = torch.zeros(end - self._begin, dtype=torch.float32, device=self.device, pin_memory=pinned)
        self._owned_gradient = torch.zeros_like(self._owned, pin_memory=pinned) if sends_gradient else None
        # The rank's share of each rank's elements, and owns of each rank's shards.
        self._here = [_within(common(mine, ranges), mine) for ranges in owned]
        self._there = [
            [(begin - self._begin, end - self._begin) for begin, end in common(own, ranges)] for ranges in shards
        ]
        self._collect(self.theta, self._owned)

    def gather(self) -> None:
        super().gather()
        self._collect(self.theta, self._owned)

    def scatter(self) -> None:
        self._deal(self._owned, self.theta)
        super().scatter()

    def gather_gradient(self) -> None:
        super().gather_gradient()
        assert self.gradient is not None and self._owned_gradient is not None
        self._collect(self.gradient, self._owned_gradient)

    def scatter_gradient(self) -> None:
        assert self.gradient is not None and self._owned_gradient is not None
        self._deal(self._owned_gradient, self.gradient)
        super().scatter_gradient()

    def _amounts(self) -> torch.Tensor:
        mine = super()._amounts()
        everyones = mine.new_empty((self._node.ranks, len(mine)))
        self._node.all_gather(everyones, mine)
        return everyones.sum(0)

    def addresses(self) -> Tuple[int, Optional[int], int, Optional[int]]:
        _, _, device, stream = super().addresses()
        # The library touches no elements before those of this rank.
        before = self._begin * self._owned.element_size()
        gradient = None if self._owned_gradient is None else self._owned_gradient.data_ptr() - before
        return self._owned.data_ptr() - before, gradient, device, stream

    def _collect(self, shards: torch.Tensor, owned: torch.Tensor) -> None:
        self._move(shards, self._here, owned, self._there)

    def _deal(self, owned: torch.Tensor, shards: torch.Tensor) -> None:
        self._move(owned, self._there, shards, self._here)

    def _move(
        self, source: torch.Tensor, from_here: List[List[Range]], to: torch.Tensor, from_there: List[List[Range]]
    ) -> None:
        with torch.no_grad():
            sent = source.new_empty(sum(map(size, from_here)))
            received = to.new_empty(sum(map(size, from_there)))
            pack(source, [each for ranges in from_here for each in ranges], sent)
            self._node.all_to_all(received, list(map(size, from_there)), sent, list(map(size, from_here)))
            unpack(received, [each for ranges in from_there for each in ranges], to)


def _shards(parameters: Sequence[torch.Tensor], offsets: Sequence[int], rank: int, ranks: int) -> List[Range]:
    """The flat elements of the rank's shards, one range a parameter, which may be empty. The offsets ascend."""
    ranges = []
    for offset, parameter in zip(offsets, parameters):
        begin, end = _rows(parameter, rank, ranks)
        row = parameter.numel() // max(len(parameter), 1)
        ranges.append((offset + begin * row, offset + end * row))
    return ranges


def _places(ranges: Sequence[Range]) -> List[int]:
    """Where each range begins, if they lie one behind the other."""
    places, at = [], 0
    for begin, end in ranges:
        places.append(at)
        at += end - begin
    return places


def _within(parts: Sequence[Range], ranges: Sequence[Range]) -> List[Range]:
    """The places of parts of the ranges, if these lie one behind the other. Both ascend."""
    places, found, i = _places(ranges), [], 0
    for begin, end in parts:
        while ranges[i][1] <= begin:
            i += 1
        found.append((places[i] + begin - ranges[i][0], places[i] + end - ranges[i][0]))
    return found
