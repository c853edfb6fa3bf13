"""Where a packed vector lives for PyTorch: in the host's memory itself, or mirrored on a device.

Transports, rules and optimizers use host vectors. A device computes with copies of them, which are
updated before a gradient is computed and read after it.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

import torch

from knltrain.backends.cpu.backend import ViewCache
from knltrain.vectors import FloatArray

HOST: Final = torch.device("cpu")
_FLOAT_BYTES = 4


class _Pair(NamedTuple):
    host: torch.Tensor
    there: torch.Tensor


@final
class Mirrors:
    """The vectors of a backend as tensors on a device.

    On the host a tensor is the vector's own memory, and nothing is copied. With ``are_apart`` even
    the host has copies, as a device has: for tests.
    """

    def __init__(self, device: torch.device = HOST, are_apart: bool = False) -> None:
        self.device = device
        self._are_apart = are_apart or device.type != "cpu"
        self._pairs = ViewCache(self._pair)
        self._kept: dict[int, _Pair] = {}

    def keep(self, vector: FloatArray) -> None:
        """Leave the vector where it is on the device until the end, as a graph needs it."""
        self._kept[vector.ctypes.data] = self._pair(vector)

    def load(self, vector: FloatArray, place: FloatArray | None = None) -> None:
        """Copy the vector to the device; work that is begun after this sees it.

        With `place` to where that other vector is there.
        """
        if place is not None:
            self.packed(place).copy_(torch.from_numpy(vector), non_blocking=True)
        elif self._are_apart:
            pair = self._pairs.of(vector)
            pair.there.copy_(pair.host, non_blocking=True)

    def store(self, vector: FloatArray, place: FloatArray | None = None) -> None:
        """Copy the device's values into the vector; returns once they are there.

        With `place` from where that other vector is there.
        """
        if place is not None:
            torch.from_numpy(vector).copy_(self.packed(place))
        elif self._are_apart:
            pair = self._pairs.of(vector)
            pair.host.copy_(pair.there)

    def packed(self, vector: FloatArray) -> torch.Tensor:
        """The vector (n,) on the device."""
        return (self._kept.get(vector.ctypes.data) or self._pairs.of(vector)).there

    def view(self, vector: FloatArray, part: FloatArray) -> torch.Tensor:
        """The part of the device's vector at the place of ``part``, a view on the host's."""
        if not self._are_apart:
            return torch.from_numpy(part)
        offset = (part.ctypes.data - vector.ctypes.data) // _FLOAT_BYTES
        strides = [stride // _FLOAT_BYTES for stride in part.strides]
        found = self.packed(vector).as_strided(part.shape, strides, offset)
        return found.data  # so that autograd takes no write elsewhere in the vector for one here

    def close(self) -> None:
        """Release the device's memory, and the vectors."""
        self._pairs.clear()
        self._kept.clear()

    def _pair(self, vector: FloatArray) -> _Pair:
        host = torch.from_numpy(vector)
        return _Pair(host, torch.zeros_like(host, device=self.device) if self._are_apart else host)
