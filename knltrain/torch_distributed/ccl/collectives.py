"""Collective operations by oneCCL, and by gloo those that oneCCL's C interface has not."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor

from knltrain.errors import CollectiveError, KnltrainError
from knltrain.exchange.collectives import Collectives
from knltrain.exchange.collectives.operations import Memory
from knltrain.exchange.oneccl import Communicator
from knltrain.exchange.oneccl.communicator import KINDS, OPERATIONS
from vectorized_ops.reference.reduction import AND, MAX, MEAN, MIN, OR, STORED, SUM, XOR

_EARLIER_SECONDS = 0.5
_BITWISE: dict[int, Any] = {AND: dist.ReduceOp.BAND, OR: dist.ReduceOp.BOR, XOR: dist.ReduceOp.BXOR}


@final
class OnecclCollectives(Collectives):
    """See `Collectives`; ``gloo`` is a process group of the same ranks.

    Gather, scatter, exchanges of parts of different sizes and bitwise reductions go by gloo. Limits
    are for others to keep: a call may never return. ``failure()`` is what the group failed with.
    """

    def __init__(
        self,
        communicator: Communicator,
        gloo: Any,
        timeout_seconds: float,
        failure: Callable[[], KnltrainError | None],
    ) -> None:
        self.rank, self.ranks = communicator.rank, communicator.ranks
        self.timeout_seconds = timeout_seconds
        self._communicator, self._gloo, self._failure = communicator, gloo, failure

    def all_reduce(
        self, address: int, count: int, kind: str, operation: int, limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        _check(kind)
        if operation in _BITWISE:
            options = dist.AllreduceOptions()
            options.reduceOp = _BITWISE[operation]
            self._by_gloo("allreduce", limit, [_tensor(address, count, kind)], options)
            return
        if operation in (MIN, MAX) and "float" in kind:  # of NaNs each rank makes its own
            self._communicator.reduce(address, address, count, kind, operation, 0)
            self._communicator.broadcast(address, count * STORED[kind].itemsize, 0)
            return
        summing = SUM if operation == MEAN else operation
        self._communicator.all_reduce(address, count, kind, summing)
        if operation == MEAN:
            _tensor(address, count, kind).div_(self.ranks)

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
        kept = _tensor(address, count, kind)
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
        source, _kept = _in_a_row([(address, bytes_) for address in sources])
        out = _tensor(target, count, kind)
        if operation in _BITWISE:
            whole = _tensor(source, count * self.ranks, kind).clone()
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
            _bytes(targets[self.rank]).copy_(_bytes(source))
            for root, target in enumerate(targets):
                self.broadcast(target, root, limit)
            return
        begin, whole = _row_for(targets)
        self._communicator.all_gather(source[0], begin, source[1])
        _take_apart(whole, targets)

    def gather(
        self, source: Memory, targets: Sequence[Memory], root: int, limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        options = dist.GatherOptions()
        options.rootRank = root
        wanted = [list(map(_bytes, targets))] if self.rank == root else []
        self._by_gloo("gather", limit, wanted, [_bytes(source)], options)

    def scatter(
        self, sources: Sequence[Memory], target: Memory, root: int, limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        options = dist.ScatterOptions()
        options.rootRank = root
        given = [list(map(_bytes, sources))] if self.rank == root else []
        self._by_gloo("scatter", limit, [_bytes(target)], given, options)

    def all_to_all(
        self, sources: Sequence[Memory], targets: Sequence[Memory], limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        sizes = [bytes_ for _, bytes_ in (*sources, *targets)]
        extremes = torch.tensor([max(sizes), -min(sizes)], dtype=torch.int64, device="cpu")
        self.all_reduce(extremes.data_ptr(), 2, "int64", MAX, limit)
        source, _kept = _in_a_row(sources)
        begin, whole = _row_for(targets)
        if extremes[0] == -extremes[1]:
            self._communicator.all_to_all(source, begin, sizes[0])
        else:
            to, of = ([bytes_ for _, bytes_ in each] for each in (sources, targets))
            given, taken = _bytes((source, sum(to))), _bytes((begin, sum(of)))
            options = dist.AllToAllOptions()
            self._by_gloo("alltoall_base", limit, taken, given, of, to, options)
        _take_apart(whole, targets)

    def barrier(self, limit: float | None = None) -> None:
        """See `Collectives`."""
        one = torch.zeros(1, dtype=torch.int32, device="cpu")
        self.all_reduce(one.data_ptr(), 1, "int32", MIN, limit)

    def _by_gloo(self, method: str, limit: float | None, *arguments: Any) -> None:
        """Have gloo give up before the lane does: its call returns."""
        seconds = self.timeout_seconds if limit is None else limit
        options = arguments[-1]
        options.timeout = timedelta(seconds=max(seconds - _EARLIER_SECONDS, seconds / 2))
        try:
            getattr(self._gloo, method)(*arguments).wait()
        except RuntimeError as error:
            time.sleep(_EARLIER_SECONDS)  # the watch may know more
            failure = self._failure()
            if failure is not None:
                raise failure from error
            raise CollectiveError(
                f"{method} by gloo failed, within {seconds:g} s: {error}"
            ) from error


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise CollectiveError(f"oneCCL does not reduce {kind}: expected one of {', '.join(KINDS)}")


def _bytes(memory: Memory) -> Tensor:
    address, bytes_ = memory
    if not bytes_:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    return torch.frombuffer((ctypes.c_char * bytes_).from_address(address), dtype=torch.uint8)


def _tensor(address: int, count: int, kind: str) -> Tensor:
    return _bytes((address, count * STORED[kind].itemsize)).view(getattr(torch, kind))


def _are_in_a_row(memories: Sequence[Memory]) -> bool:
    ends = [address + bytes_ for address, bytes_ in memories]
    return all(end == begin for end, (begin, _) in zip(ends, memories[1:], strict=False))


def _in_a_row(memories: Sequence[Memory]) -> tuple[int, Tensor | None]:
    """Return where pieces of memory lie one behind the other, and the copy if they did not."""
    if _are_in_a_row(memories):
        return memories[0][0], None
    copied = torch.cat([_bytes(memory) for memory in memories])
    return copied.data_ptr(), copied


def _row_for(memories: Sequence[Memory]) -> tuple[int, Tensor | None]:
    """Return where pieces of memory can be written one behind the other, and what to take apart."""
    if _are_in_a_row(memories):
        return memories[0][0], None
    size = sum(bytes_ for _, bytes_ in memories)
    whole = torch.empty(size, dtype=torch.uint8, device="cpu")
    return whole.data_ptr(), whole


def _take_apart(whole: Tensor | None, memories: Sequence[Memory]) -> None:
    if whole is not None:
        sizes = [bytes_ for _, bytes_ in memories]
        for memory, part in zip(memories, torch.split(whole, sizes), strict=True):
            _bytes(memory).copy_(part)
