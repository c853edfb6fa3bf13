"""Vectors of a library's member: each is summed over all members by one all-reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from knltrain.bench.exchange.member import HeldVectors, check_values
from knltrain.vectors import FloatArray

ALL_REDUCE = "all_reduce"


@final
class ReducedVectors(HeldVectors):
    """`vectors`, all zero, of worker `rank`; `reduce[i]` sums the i-th over members, in place."""

    def __init__(
        self,
        rank: int,
        workers: int,
        vectors: Sequence[FloatArray],
        reduce: Sequence[Callable[[], object]],
        meet: Callable[[], object],
    ) -> None:
        self._rank, self._workers = rank, workers
        self._vectors, self._reduce, self._meet = vectors, reduce, meet
        self.operations = {ALL_REDUCE: reduce[0] if len(reduce) == 1 else self._each}

    def check(self) -> None:
        """Compare with the sum of rank + 1 over all."""
        for vector in self._vectors:
            vector.fill(self._rank + 1)
        self._each()
        check_values(ALL_REDUCE, self._vectors, self._workers * (self._workers + 1) / 2)
        for vector in self._vectors:
            vector.fill(0)

    def meet(self) -> None:
        """Wait for all members."""
        self._meet()

    def _each(self) -> None:
        for reduce in self._reduce:
            reduce()
