"""Sums of vectors on devices over the workers of a node, which name them by arrays of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from knltrain.backends.torch.devices import failures_told
from knltrain.backends.torch.mirrors import Mirrors
from knltrain.communication.device_sum import TensorSum
from knltrain.vectors import FloatArray


@final
class MirroredSums:
    """Adds up copies of followed vectors (n,) in `mirrors`, which have the newest values then."""

    def __init__(self, mirrors: Mirrors, sums: TensorSum) -> None:
        self._mirrors, self._sums = mirrors, sums

    def all_reduce(self, vector: FloatArray, check: Callable[[], None]) -> None:
        """Replace a vector's copy by the sum over all workers of the node (collective)."""
        with failures_told(self._mirrors.device):
            self._mirrors.load(vector)
            self._sums.all_reduce(self._mirrors.packed(vector), check)
        self._mirrors.store(vector)

    def close(self) -> None:
        """Leave the others."""
        self._sums.close()
