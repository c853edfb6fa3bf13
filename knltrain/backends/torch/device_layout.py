"""The order of a packed vector's values on a device: that of the host, or of its convolutions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch

from knltrain.network.network import Network


@final
@dataclass(frozen=True)
class DeviceLayout:
    """Weights of convolutions (K,C,R,S) lie as (K,R,S,C) on a device, as cuDNN wants them there.

    Left as they are, each step would put them into that order, and their gradient back: batches
    are channels last. The host's order is that of files and of exchanges. It changes in vectors of
    `size` values alone, at `weights`: their offsets and shapes.
    """

    size: int = 0
    weights: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @classmethod
    def of(cls, network: Network) -> DeviceLayout:
        """That of a network's parameters and gradients."""
        weights = [
            (spec.offset, spec.shape)
            for spec in network.parameters
            if len(spec.shape) == 4 and spec.shape[1] > 1 and math.prod(spec.shape[2:]) > 1
        ]
        return cls(network.packed_size, tuple(weights))

    def strides(self, size: int, shape: Sequence[int], plain: Sequence[int]) -> list[int]:
        """Those of a parameter of a vector (size,) on the device; on the host they are `plain`."""
        if size != self.size or len(shape) != 4:
            return list(plain)
        _, channels, rows, columns = shape
        return [channels * rows * columns, 1, columns * channels, channels]

    def to_device(self, there: torch.Tensor, host: torch.Tensor) -> None:
        """Copy a vector of the host, (n,) or several (k, n), to one on the device."""
        if not self._moves(host):
            there.copy_(host)
            return
        arrived = host.to(there.device)
        there.copy_(arrived)
        for plain, moved in self._weights(arrived, there, 0):
            moved.copy_(plain)

    def to_host(
        self, host: torch.Tensor, there: torch.Tensor, begin: int = 0, end: int | None = None
    ) -> None:
        """Copy a vector on the device, or whole parameters of it, to one of the host."""
        part = slice(begin, end)
        if not self._moves(host):
            host[..., part].copy_(there[..., part])
            return
        leaving = there[..., part].clone()
        for plain, moved in self._weights(leaving, there[..., part], begin):
            plain.copy_(moved)
        host[..., part].copy_(leaving)

    def _moves(self, host: torch.Tensor) -> bool:
        return bool(self.weights) and host.shape[-1] == self.size

    def _weights(
        self, plain: torch.Tensor, moved: torch.Tensor, begin: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The weights of each convolution in two parts that begin there, one in each order."""
        for offset, shape in self.weights:
            if not begin <= offset < begin + plain.shape[-1]:
                continue
            values = slice(offset - begin, offset - begin + math.prod(shape))
            filters, channels, rows, columns = shape
            several = plain.shape[:-1]
            there = moved[..., values].view(*several, filters, rows, columns, channels)
            yield plain[..., values].view(*several, *shape), there.movedim(-1, -3)


PLAIN: Final = DeviceLayout()
"""The host's order."""
