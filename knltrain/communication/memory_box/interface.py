"""The interface of memory boxes and their buffers, the same within a node and across nodes.

A box within a node is `knltrain.communication.memory_box.local`, one across nodes
`knltrain.communication.memory_box.remote`; a program works with both unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
Kind = TypeVar("Kind")


class SharedBuffer(ABC, Generic[Kind]):
    """``size`` elements of ``dtype`` (float32 or int64) with one-sided operations.

    ``key`` lets other processes open it. Operations return when they are done. Vector operations
    on one target give the same results as if one ran after the other.
    """

    key: int

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of elements."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""

    @abstractmethod
    def read(self, out: AnyArray, offset: int = 0) -> None:
        """Copy elements from ``offset`` on to ``out`` (k,)."""

    @abstractmethod
    def write(self, values: AnyArray, offset: int = 0) -> None:
        """Copy ``values`` (k,) to the elements from ``offset`` on."""

    @abstractmethod
    def accumulate(self, source: Kind) -> None:
        """Add another buffer of the same size to this one."""

    @abstractmethod
    def axpby(self, a: float, source: Kind, b: float) -> None:
        """Set this float32 buffer to a times itself plus b times another of the same size."""

    @abstractmethod
    def scale(self, a: float) -> None:
        """Multiply this float32 buffer by ``a``."""

    @abstractmethod
    def notify(self, event: int = 0) -> None:
        """Signal ``event``, 0 <= event < 8, to all who wait for it."""

    @abstractmethod
    def wait(self, event: int = 0, timeout_seconds: float | None = None) -> int:
        """Wait until ``event`` was signalled since the last call; return how often.

        Raises ExchangeTimeout.
        """

    @abstractmethod
    def free(self) -> None:
        """Free its memory; its key is invalid afterwards."""


class Box(ABC, Generic[Kind]):
    """Memory in which processes make buffers, and open those of others by their keys."""

    @abstractmethod
    def create_buffer(
        self, size: int, dtype: npt.DTypeLike = np.float32, private: bool = False
    ) -> Kind:
        """Make a buffer of ``size`` zeros; a ``private`` one is for this process alone."""

    @abstractmethod
    def open(self, key: int) -> Kind:
        """Open the buffer of that key; SegmentError if there is none."""

    @abstractmethod
    def close(self) -> None:
        """Release the box."""
