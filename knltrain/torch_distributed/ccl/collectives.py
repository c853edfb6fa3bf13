"""Collective operations by oneCCL, and by gloo those that oneCCL's C interface has not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch

from knltrain.errors import CollectiveError
from knltrain.exchange.collectives import Collectives
from knltrain.exchange.collectives.operations import Memory
from knltrain.exchange.oneccl import Communicator
from knltrain.exchange.oneccl.communicator import KINDS, OPERATIONS
from knltrain.torch_distributed.ccl.gloo_collectives import GlooCollectives
from knltrain.torch_distributed.ccl.memory import (
    bytes_at,
    in_a_row,
    row_for,
    take_apart,
    tensor_at,
)
from vectorized_ops.reference.reduction import AND, MAX, MEAN, MIN, OR, STORED, SUM, XOR

_BITWISE = (AND, OR, XOR)


@final
class OnecclCollectives(Collectives):
    """See `Collectives`; ``beside`` are those of the same ranks by gloo.

    Gather, scatter, exchanges of parts of different sizes and bitwise reductions go by gloo. Limits
    are for others to keep: a call may never return.
    """

    def __init__(self, communicator: Communicator, beside: GlooCollectives) -> None:
        self.rank, self.ranks = communicator.rank, communicator.ranks
        self.timeout_seconds = beside.timeout_seconds
        self._communicator, self._beside = communicator, beside

    def all_reduce(
        self, address: int, count: int, kind: str, operation: int, limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        _check(kind)
        if operation in _BITWISE:
            self._beside.all_reduce(address, count, kind, operation, limit)
            return
        if operation in (MIN, MAX) and "float" in kind:  # of NaNs each rank makes its own
            self._communicator.reduce(address, address, count, kind, operation, 0)
            self._communicator.broadcast(address, count * STORED[kind].itemsize, 0)
            return
        summing = SUM if operation == MEAN else operation
        self._communicator.all_reduce(address, count, kind, summing)
        if operation == MEAN:
            tensor_at(address, count, kind).div_(self.ranks)

    def reduce(
        self,
        address: int,
        count: int,
        kind: str,
        operation: int,
        root: int,
        limit: float | None = None,
    ) -> None:
        """See `Collectives`."""
        _check(kind)
        kept = tensor_at(address, count, kind)
        reduced = kept if self.rank == root else torch.empty_like(kept)
        if operation not in OPERATIONS:
            if self.rank != root:
                reduced.copy_(kept)
            self.all_reduce(reduced.data_ptr(), count, kind, operation, limit)
            return
        self._communicator.reduce(address, reduced.data_ptr(), count, kind, operation, root)

    def reduce_scatter(
        self,
        sources: Sequence[int],
        target: int,
        count: int,
        kind: str,
        operation: int,
        limit: float | None = None,
    ) -> None:
        """See `Collectives`."""
        _check(kind)
        bytes_ = count * STORED[kind].itemsize
        source, _kept = in_a_row([(address, bytes_) for address in sources])
        out = tensor_at(target, count, kind)
        if operation in _BITWISE:
            whole = tensor_at(source, count * self.ranks, kind).clone()
            self.all_reduce(whole.data_ptr(), whole.numel(), kind, operation, limit)
            out.copy_(whole[self.rank * count :][:count])
            return
        summing = SUM if operation == MEAN else operation
        self._communicator.reduce_scatter(source, target, count, kind, summing)
        if operation == MEAN:
            out.div_(self.ranks)

    def broadcast(self, memory: Memory, root: int, limit: float | None = None) -> None:  # noqa: ARG002
        """See `Collectives`."""
        self._communicator.broadcast(*memory, root)

    def all_gather(
        self, source: Memory, targets: Sequence[Memory], limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        if len({bytes_ for _, bytes_ in targets}) > 1:
            bytes_at(targets[self.rank]).copy_(bytes_at(source))
            for root, target in enumerate(targets):
                self.broadcast(target, root, limit)
            return
        begin, whole = row_for(targets)
        self._communicator.all_gather(source[0], begin, source[1])
        take_apart(whole, targets)

    def gather(
        self, source: Memory, targets: Sequence[Memory], root: int, limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        self._beside.gather(source, targets, root, limit)

    def scatter(
        self, sources: Sequence[Memory], target: Memory, root: int, limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        self._beside.scatter(sources, target, root, limit)

    def all_to_all(
        self, sources: Sequence[Memory], targets: Sequence[Memory], limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        sizes = [bytes_ for _, bytes_ in (*sources, *targets)]
        extremes = torch.tensor([max(sizes), -min(sizes)], dtype=torch.int64, device="cpu")
        self.all_reduce(extremes.data_ptr(), 2, "int64", MAX, limit)
        if extremes[0] != -extremes[1]:
            self._beside.all_to_all(sources, targets, limit)
            return
        source, _kept = in_a_row(sources)
        begin, whole = row_for(targets)
        self._communicator.all_to_all(source, begin, sizes[0])
        take_apart(whole, targets)

    def barrier(self, limit: float | None = None) -> None:
        """See `Collectives`."""
        one = torch.zeros(1, dtype=torch.int32, device="cpu")
        self.all_reduce(one.data_ptr(), 1, "int32", MIN, limit)


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise CollectiveError(f"oneCCL does not reduce {kind}: expected one of {', '.join(KINDS)}")
