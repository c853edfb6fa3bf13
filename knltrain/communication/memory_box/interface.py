"""The seam of parameter memories: what a program may do with a box and a buffer, wherever they lie.

A box within a node is `knltrain.communication.memory_box.local`, one across nodes
`knltrain.communication.memory_box.remote`; the text of a program is the same for both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
Kind = TypeVar("Kind")


class SharedBuffer(ABC, Generic[Kind]):
    """``size`` elements of ``dtype`` (float32 or int64) that can be worked on one-sided.

    ``key`` lets other processes open it. Operations return when they are done; vector operations on
    one target exclude each other as far as results can tell.
    """

    key: int

    @property
    @abstractmethod
    def size(self) -> int:
        """How many elements it has."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """What they are."""

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
        """Tell all who wait for ``event``, 0 <= event < 8, that it has happened."""

    @abstractmethod
    def wait(self, event: int = 0, timeout_seconds: float | None = None) -> int:
        """Wait until ``event`` has happened since last asked; return how often. ExchangeTimeout."""

    @abstractmethod
    def free(self) -> None:
        """Give its memory back; its key opens nothing any more."""


class Box(ABC, Generic[Kind]):
    """Memory in which processes make buffers, and open those of others by their keys."""

    @abstractmethod
    def create_buffer(
        self, size: int, dtype: npt.DTypeLike = np.float32, private: bool = False
    ) -> Kind:
        """Make a buffer of ``size`` zeros; one that is ``private`` is for this process alone."""

    @abstractmethod
    def open(self, key: int) -> Kind:
        """Open the buffer of that key; SegmentError if there is none."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the box."""
