"""Packed float32 vectors of parameters and gradients, and where they are computed with.

Everywhere a vector is named by its array on the host. A device has a copy of it. Of the two one may
be newer than the other, as nothing is copied before it is needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, final

import numpy as np

from vectorized_ops import layout
from vectorized_ops.layout import FloatArray

__all__ = [
    "HOST",
    "Arithmetic",
    "DeviceArithmetic",
    "FloatArray",
    "HostArithmetic",
    "HostSpace",
    "VectorSpace",
    "aligned_zeros",
]


def aligned_zeros(size: int) -> FloatArray:
    """Zeros float32 (size,) that start on a 64-byte boundary, touched by the calling thread."""
    vector: FloatArray = layout.aligned_zeros((size,))
    vector.fill(0)  # The kernel gives memory from where it is first written.
    return vector


class Arithmetic(Protocol):
    """What rules compute contributions with, where the vectors are: float32 (n,), no overlap."""

    @abstractmethod
    def copy(self, values: FloatArray, out: FloatArray) -> None:
        """Write the values to ``out``."""

    @abstractmethod
    def add(self, a: FloatArray, b: FloatArray, out: FloatArray) -> None:
        """Write a + b, to one of them as well."""

    @abstractmethod
    def subtract(self, a: FloatArray, b: FloatArray, out: FloatArray) -> None:
        """Write a − b."""

    @abstractmethod
    def divide(self, values: FloatArray, number: int, out: FloatArray) -> None:
        """Write values / number, to the values as well."""


class DeviceArithmetic(Arithmetic, Protocol):
    """That of a device: arrays name their copies there, which are written."""

    @abstractmethod
    def elastic_increment(
        self, local: FloatArray, center: FloatArray, increment: FloatArray, moving_rate: float, /
    ) -> None:
        """Pull one local, and write the increment for the center."""


@final
class HostArithmetic:
    """NumPy's."""

    def copy(self, values: FloatArray, out: FloatArray) -> None:
        """Write the values to ``out``."""
        np.copyto(out, values)

    def add(self, a: FloatArray, b: FloatArray, out: FloatArray) -> None:
        """Write a + b, to one of them as well."""
        np.add(a, b, out=out)

    def subtract(self, a: FloatArray, b: FloatArray, out: FloatArray) -> None:
        """Write a − b."""
        np.subtract(a, b, out=out)

    def divide(self, values: FloatArray, number: int, out: FloatArray) -> None:
        """Write values / number, to the values as well."""
        np.divide(values, np.float32(number), out=out)


class VectorSpace(ABC):
    """Keeps the arrays on the host and their copies elsewhere coherent.

    Whoever reads an array on the host calls `to_host` before. Whoever has written it there calls
    `changed` before the device computes with it.
    """

    @property
    def arithmetic(self) -> DeviceArithmetic | None:
        """That of exchanges on followed vectors, where they are; None on the host."""
        return None

    @abstractmethod
    def follow(self, *vectors: FloatArray) -> None:
        """From here on the newest values of these arrays may be on the device alone."""

    @abstractmethod
    def to_host(self, *vectors: FloatArray) -> None:
        """Bring the newest values into these arrays."""

    @abstractmethod
    def send(self, *vectors: FloatArray) -> None:
        """Let the device have the newest values now, rather than when it needs them."""

    @abstractmethod
    def beside(self) -> AbstractContextManager[None]:
        """Let a thread copy in the body, beside what the device computes after this call.

        What it computes before is seen. To be called by the thread that computes.
        """

    @abstractmethod
    def changed(self, *vectors: FloatArray) -> None:
        """Take the arrays' values on the host as the newest."""

    @abstractmethod
    def computed(self, *vectors: FloatArray) -> None:
        """Take the values of followed arrays on the device as the newest."""

    @abstractmethod
    def close(self) -> None:
        """Release what is not the host's; copies must not be used afterwards."""

    def take(self, *vectors: FloatArray) -> None:
        """Follow arrays that were written on the host, and send them."""
        self.follow(*vectors)
        self.changed(*vectors)
        self.send(*vectors)


@final
class HostSpace(VectorSpace):
    """The host's memory, where nothing has a copy."""

    def follow(self, *vectors: FloatArray) -> None:
        """Do nothing."""

    def to_host(self, *vectors: FloatArray) -> None:
        """Do nothing."""

    def send(self, *vectors: FloatArray) -> None:
        """Do nothing."""

    def beside(self) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def changed(self, *vectors: FloatArray) -> None:
        """Do nothing."""

    def computed(self, *vectors: FloatArray) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


HOST: Final = HostSpace()
