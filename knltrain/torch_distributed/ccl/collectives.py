"""Collective operations by oneCCL, and by gloo those that oneCCL's C interface lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import torch

from knltrain.communication.collectives.operations import Memory
from knltrain.communication.oneccl import Communicator
from knltrain.communication.oneccl.communicator import KINDS
from knltrain.errors import CollectiveError, KnltrainError
from knltrain.torch_distributed.ccl.gloo_collectives import GlooCollectives
from knltrain.torch_distributed.ccl.memory import in_a_row, row_for, take_apart, tensor_at
from vectorized_ops.reference.reduction import AND, MAX, MEAN, MIN, OR, STORED, SUM, XOR

_BITWISE = (AND, OR, XOR)


@final
class OnecclCollectives(GlooCollectives):
    """See `Collectives`; ``gloo`` and ``failure`` are those of `GlooCollectives`, same ranks.

    Gather, scatter, exchanges of parts of different sizes and bitwise reductions are done by gloo.
    Time limits are enforced by the `Lane`: a call of oneCCL may never return.
    """

    def __init__(
        self,
        communicator: Communicator,
        gloo: Any,
        timeout_seconds: float,
        failure: Callable[[], KnltrainError | None],
    ) -> None:
        super().__init__(gloo, communicator.rank, communicator.ranks, timeout_seconds, failure)
        self._communicator = communicator

    def all_reduce(
        self, address: int, count: int, kind: str, operation: int, limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        _check(kind)
        if operation in _BITWISE:
            super().all_reduce(address, count, kind, operation, limit)
            return
        if operation in (MIN, MAX) and "float" in kind:  # with NaNs ranks get different results
            self._communicator.reduce(address, address, count, kind, operation, 0)
            self._communicator.broadcast(address, count * STORED[kind].itemsize, 0)
            return
        self._communicator.all_reduce(address, count, kind, _summing(operation))
        self._finish(address, count, kind, operation)

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
        if operation in _BITWISE:
            super().reduce(address, count, kind, operation, root, limit)
            return
        kept = tensor_at(address, count, kind)
        reduced = kept if self.rank == root else torch.empty_like(kept)
        target = reduced.data_ptr()
        self._communicator.reduce(address, target, count, kind, _summing(operation), root)
        self._finish(target, count, kind, operation)

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
        if operation in _BITWISE:
            super().reduce_scatter(sources, target, count, kind, operation, limit)
            return
        bytes_ = count * STORED[kind].itemsize
        source, _kept = in_a_row([(address, bytes_) for address in sources])
        self._communicator.reduce_scatter(source, target, count, kind, _summing(operation))
        self._finish(target, count, kind, operation)

    def broadcast(self, memory: Memory, root: int, limit: float | None = None) -> None:  # noqa: ARG002
        """See `Collectives`."""
        self._communicator.broadcast(*memory, root)

    def all_gather(
        self, source: Memory, targets: Sequence[Memory], limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        if len({bytes_ for _, bytes_ in targets}) > 1:
            super().all_gather(source, targets, limit)  # by broadcasts of this class
            return
        begin, whole = row_for(targets)
        self._communicator.all_gather(source[0], begin, source[1])
        take_apart(whole, targets)

    def all_to_all(
        self, sources: Sequence[Memory], targets: Sequence[Memory], limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        sizes = [bytes_ for _, bytes_ in (*sources, *targets)]
        extremes = torch.tensor([max(sizes), -min(sizes)], dtype=torch.int64, device="cpu")
        self.all_reduce(extremes.data_ptr(), 2, "int64", MAX, limit)
        if extremes[0] != -extremes[1]:
            super().all_to_all(sources, targets, limit)
            return
        source, _kept = in_a_row(sources)
        begin, whole = row_for(targets)
        self._communicator.all_to_all(source, begin, sizes[0])
        take_apart(whole, targets)

    def _finish(self, address: int, count: int, kind: str, operation: int) -> None:
        """Turn a sum into the requested result."""
        if operation == MEAN:
            tensor_at(address, count, kind).div_(self.ranks)


def _summing(operation: int) -> int:
    """Return the operation to call in oneCCL, which has no mean."""
    return SUM if operation == MEAN else operation


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise CollectiveError(f"oneCCL does not reduce {kind}: expected one of {', '.join(KINDS)}")
