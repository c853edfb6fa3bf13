"""The arithmetic of exchanges on a device, called with arrays of the host as NumPy's is."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import torch

from knltrain.vectors import FloatArray
from vectorized_ops.device.elastic import elastic_increment

if TYPE_CHECKING:
    from knltrain.backends.torch.mirrors import Mirrors


@final
class MirroredArithmetic:
    """Arithmetic on followed vectors (n,) of `mirrors`, which have the newest values then."""

    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors

    def copy(self, values: FloatArray, out: FloatArray) -> None:
        """Write the values to ``out``."""
        self._mirrors.packed(out).copy_(self._there(values))
        self._mirrors.store(out)

    def add(self, a: FloatArray, b: FloatArray, out: FloatArray) -> None:
        """Write a + b, to one of them as well."""
        torch.add(self._there(a), self._there(b), out=self._mirrors.packed(out))
        self._mirrors.store(out)

    def subtract(self, a: FloatArray, b: FloatArray, out: FloatArray) -> None:
        """Write a − b."""
        torch.sub(self._there(a), self._there(b), out=self._mirrors.packed(out))
        self._mirrors.store(out)

    def divide(self, values: FloatArray, number: int, out: FloatArray) -> None:
        """Write values / number, to the values as well."""
        there = self._there(values)
        # A number of the host is multiplied by on a GPU, inverted, which rounds once more.
        divisor = torch.full((), number, dtype=torch.float32, device=there.device)
        torch.div(there, divisor, out=self._mirrors.packed(out))
        self._mirrors.store(out)

    def elastic_increment(
        self, local: FloatArray, center: FloatArray, increment: FloatArray, moving_rate: float, /
    ) -> None:
        """Pull one local, and write the increment for the center."""
        there = self._there(local), self._there(center), self._mirrors.packed(increment)
        elastic_increment(*there, moving_rate)
        for each in (local, increment):
            self._mirrors.store(each)

    def _there(self, vector: FloatArray) -> torch.Tensor:
        self._mirrors.load(vector)
        return self._mirrors.packed(vector)
