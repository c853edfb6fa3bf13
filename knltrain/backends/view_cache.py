"""Caches objects made of packed vectors, since the same vectors are used in every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, final

from knltrain.vectors import FloatArray

Made = TypeVar("Made")

REMEMBERED_VECTORS = 8


@final
class ViewCache(Generic[Made]):
    """Cached results of `make` for the latest vectors, by their addresses.

    The vectors are kept alive, so that no other vector can have the same address.
    """

    def __init__(self, make: Callable[[FloatArray], Made]) -> None:
        self._make = make
        self._made: dict[object, tuple[FloatArray, Made]] = {}

    def of(self, vector: FloatArray) -> Made:
        """Return the cached result for the memory of `vector`, or make it."""
        place = vector.ctypes.data, vector.shape, vector.strides, vector.dtype
        if place not in self._made:
            made = self._make(vector)
            if len(self._made) == REMEMBERED_VECTORS:
                del self._made[next(iter(self._made))]
            self._made[place] = vector, made
        return self._made[place][1]

    def clear(self) -> None:
        """Release all vectors and results."""
        self._made.clear()
