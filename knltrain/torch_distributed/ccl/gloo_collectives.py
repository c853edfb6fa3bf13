"""Collective operations by gloo: those that oneCCL lacks, or that cannot be queued for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions

from knltrain.communication.collectives import Collectives
from knltrain.communication.collectives.operations import Memory
from knltrain.errors import CollectiveError, KnltrainError
from knltrain.torch_distributed.ccl.memory import bytes_at, in_a_row, row_for, take_apart, tensor_at
from vectorized_ops.reference.reduction import AND, MAX, MEAN, MIN, OR, PRODUCT, SUM, XOR

_EARLIER_SECONDS = 0.5
_OPERATIONS: dict[int, Any] = {
    SUM: dist.ReduceOp.SUM,
    MEAN: dist.ReduceOp.SUM,
    PRODUCT: dist.ReduceOp.PRODUCT,
    MIN: dist.ReduceOp.MIN,
    MAX: dist.ReduceOp.MAX,
    AND: dist.ReduceOp.BAND,
    OR: dist.ReduceOp.BOR,
    XOR: dist.ReduceOp.BXOR,
}


class GlooCollectives(Collectives):
    """See `Collectives`; ``gloo`` is a process group of the same ranks.

    ``failure()`` is the error of the group, if one is known. Threads may call operations at the
    same time if they are in the same order at all ranks.
    """

    def __init__(
        self,
        gloo: Any,
        rank: int,
        ranks: int,
        timeout_seconds: float,
        failure: Callable[[], KnltrainError | None],
    ) -> None:
        self.rank, self.ranks, self.timeout_seconds = rank, ranks, timeout_seconds
        self._gloo, self._failure = gloo, failure

    def all_reduce(
        self, address: int, count: int, kind: str, operation: int, limit: float | None = None
    ) -> None:
        """See `Collectives`, as for all others."""
        tensor, reduction = tensor_at(address, count, kind), _OPERATIONS[operation]
        self._do("allreduce", limit, dist.AllreduceOptions(), [tensor], reduceOp=reduction)
        if operation == MEAN:
            tensor.div_(self.ranks)

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
        tensor = tensor_at(address, count, kind)
        reduced = tensor if self.rank == root else tensor.clone()
        self.all_reduce(reduced.data_ptr(), count, kind, operation, limit)

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
        whole = torch.cat([tensor_at(address, count, kind) for address in sources])
        self.all_reduce(whole.data_ptr(), whole.numel(), kind, operation, limit)
        tensor_at(target, count, kind).copy_(whole[self.rank * count :][:count])

    def broadcast(self, memory: Memory, root: int, limit: float | None = None) -> None:
        """See `Collectives`."""
        if memory[1]:
            self._do("broadcast", limit, dist.BroadcastOptions(), [bytes_at(memory)], rootRank=root)

    def all_gather(
        self, source: Memory, targets: Sequence[Memory], limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        if len({bytes_ for _, bytes_ in targets}) == 1:
            outputs = [[bytes_at(target) for target in targets]]
            self._do("allgather", limit, AllgatherOptions(), outputs, [bytes_at(source)])
            return
        bytes_at(targets[self.rank]).copy_(bytes_at(source))
        for root, target in enumerate(targets):
            self.broadcast(target, root, limit)

    def gather(
        self, source: Memory, targets: Sequence[Memory], root: int, limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        wanted = [list(map(bytes_at, targets))] if self.rank == root else []
        given = [bytes_at(source)]
        self._do("gather", limit, dist.GatherOptions(), wanted, given, rootRank=root)

    def scatter(
        self, sources: Sequence[Memory], target: Memory, root: int, limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        given = [list(map(bytes_at, sources))] if self.rank == root else []
        wanted = [bytes_at(target)]
        self._do("scatter", limit, dist.ScatterOptions(), wanted, given, rootRank=root)

    def all_to_all(
        self, sources: Sequence[Memory], targets: Sequence[Memory], limit: float | None = None
    ) -> None:
        """See `Collectives`."""
        source, _kept = in_a_row(sources)
        begin, whole = row_for(targets)
        to, of = ([bytes_ for _, bytes_ in each] for each in (sources, targets))
        given, taken = bytes_at((source, sum(to))), bytes_at((begin, sum(of)))
        self._do("alltoall_base", limit, dist.AllToAllOptions(), taken, given, of, to)
        take_apart(whole, targets)

    def barrier(self, limit: float | None = None) -> None:
        """See `Collectives`."""
        one = torch.zeros(1, dtype=torch.int32, device="cpu")
        self.all_reduce(one.data_ptr(), 1, "int32", MIN, limit)

    def _do(
        self, method: str, limit: float | None, options: Any, *arguments: Any, **wanted: Any
    ) -> None:
        """Call gloo with the ``wanted`` options, and let it time out before others do."""
        seconds = self.timeout_seconds if limit is None else limit
        options.timeout = timedelta(seconds=max(seconds - _EARLIER_SECONDS, seconds / 2))
        for name, value in wanted.items():
            setattr(options, name, value)
        try:
            getattr(self._gloo, method)(*arguments, options).wait()
        except RuntimeError as error:
            time.sleep(_EARLIER_SECONDS)  # the failure detector may know the reason
            failure = self._failure()
            if failure is not None:
                raise failure from error
            raise CollectiveError(
                f"{method} by gloo failed, within {seconds:g} s: {error}"
            ) from error
