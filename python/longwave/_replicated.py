"""A model that each rank of a node has whole: under DistributedDataParallel, or copied by the loop."""

from typing import Sequence

import torch

from longwave._node import Node
from longwave._ranges import Range, cut, pack, size, unpack
from longwave._replica import Replica

PIECE_ELEMENTS = 1 << 24  # of each rank, in one gather


class ReplicatedReplica(Replica):
    """The flat arrays are whole at each rank. A sync changes the elements that the rank owns, and the ranks then
    exchange them. At first all ranks take rank 0's weights."""

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        offsets: Sequence[int],
        count: int,
        sends_gradient: bool,
        alias: bool,
        node: Node,
        owned: Sequence[Sequence[Range]],
    ) -> None:
        """owned: of each rank."""
        super().__init__(parameters, offsets, count, sends_gradient, alias)
        self._node = node
        by_rank = [cut(ranges, PIECE_ELEMENTS) for ranges in owned]
        self._pieces = [
            [pieces[i] if i < len(pieces) else [] for pieces in by_rank] for i in range(max(map(len, by_rank)))
        ]
        node.broadcast(self.theta)
        super().scatter()

    def scatter(self) -> None:
        self._spread(self.theta)
        super().scatter()

    def scatter_gradient(self) -> None:
        assert self.gradient is not None
        self._spread(self.gradient)
        super().scatter_gradient()

    def _spread(self, flat: torch.Tensor) -> None:
        with torch.no_grad():
            for by_rank in self._pieces:
                # A gather has as many elements of each rank.
                mine = flat.new_zeros(max(map(size, by_rank)))
                pack(flat, by_rank[self._node.rank], mine)
                gathered = flat.new_empty((self._node.ranks, len(mine)))
                self._node.all_gather(gathered, mine)
                for rank, ranges in enumerate(by_rank):
                    if rank != self._node.rank:
                        unpack(gathered[rank], ranges, flat)
