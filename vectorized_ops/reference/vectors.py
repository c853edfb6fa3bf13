"""The vector operations of a Soft Memory Box, in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]


def accumulate(target: Vector, source: Vector) -> None:
    """Add ``source`` to ``target``, both (n,) float32, no overlap."""
    target += source


def axpby(target: Vector, a: float, source: Vector, b: float) -> None:
    """Set ``target`` to a target + b source, both (n,) float32, no overlap."""
    target *= np.float32(a)
    target += np.float32(b) * source


def scale(target: Vector, a: float) -> None:
    """Multiply ``target`` (n,) float32 by ``a``."""
    target *= np.float32(a)
