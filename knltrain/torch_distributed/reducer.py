"""Asynchronous sums over the ranks of any process group of torch.distributed."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist

from knltrain.communication.internode.torch_failure import first_line, kind_of
from knltrain.communication.reduction import Reducer, Reduction
from knltrain.communication.reduction.reducer import check_values
from knltrain.errors import CollectiveError, ExchangeTimeout, KnltrainError, PeerLost
from knltrain.vectors import FloatArray


@final
class ProcessGroupReducer(Reducer):
    """Adds up by ``all_reduce(async_op=True)`` of a ``group``, by default that of all ranks.

    The backend is the program's: "gloo", "ccl", "knlshm". The program makes and destroys the group.
    ``timeout_seconds`` is how long a sum may take. Raises CollectiveError without a group.
    """

    def __init__(self, group: Any = None, timeout_seconds: float = 60.0) -> None:
        if not dist.is_initialized():
            raise CollectiveError(
                "there is no process group: expected one before its reducer; call "
                'torch.distributed.init_process_group("gloo") first, under torchrun'
            )
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        self._group, self._limit = group, timeout_seconds
        self._name = f"all_reduce of rank {self.rank} by '{dist.get_backend(group)}'"

    def start(self, values: FloatArray, average: bool = False) -> Reduction:
        """See `Reducer.start`; a mean is divided when it is waited for."""
        check_values(values)
        divisor = self.ranks if average else 1
        found = _Work(self._name, values, divisor, self._limit)
        found.begin(self._group)
        return found

    def close(self) -> None:
        """Leave the group as it is: it is the program's."""


@final
class _Work(Reduction):
    """One all_reduce, and when it was done."""

    def __init__(self, name: str, values: FloatArray, divisor: int, limit_seconds: float) -> None:
        self._name, self._values, self._divisor = name, values, divisor
        self._limit_seconds = limit_seconds
        self._work: Any = None
        self._done_at: float | None = None
        self._is_finished = False
        self._error: KnltrainError | None = None

    def begin(self, group: Any) -> None:
        """Start it; what cannot be started raises when it is waited for, as all else."""
        try:
            tensor = torch.from_numpy(self._values)
            self._work = dist.all_reduce(tensor, group=group, async_op=True)
            self._work.get_future().add_done_callback(self._note)
        except (KnltrainError, RuntimeError) as error:
            self._error = self._translated(error)

    def wait(self) -> float:
        """See `Reduction.wait`."""
        if not self._is_finished:
            self._finish()
        assert self._done_at is not None
        return self._done_at

    def _finish(self) -> None:
        if self._error is None:
            try:
                self._work.wait(timedelta(seconds=self._limit_seconds))
            except (KnltrainError, RuntimeError) as error:
                self._error = self._translated(error)
        if self._error is not None:
            raise self._error
        if self._done_at is None:  # the callback is on its way
            self._done_at = time.perf_counter()
        if self._divisor > 1:
            self._values /= self._divisor
        self._is_finished = True

    def _note(self, _future: Any) -> None:
        if self._done_at is None:
            self._done_at = time.perf_counter()

    def _translated(self, error: Exception) -> KnltrainError:
        if isinstance(error, KnltrainError):
            return error
        kind, text = kind_of(error), first_line(error)
        if kind is ExchangeTimeout:
            return ExchangeTimeout(
                f"{self._name} took more than {self._limit_seconds:g} s: {text}; if a rank can be "
                "so much slower than the others, give the reducer a longer timeout_seconds"
            )
        gone = ", another rank is gone" if kind is PeerLost else ""
        return kind(f"{self._name} failed{gone}: {text}")
