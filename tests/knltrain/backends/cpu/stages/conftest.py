"""Tensors with memory of their own, as a plan would give them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from knltrain.backends.cpu.memory import Buffer, Place, Tensor
from vectorized_ops.implementations import Operations

IMAGES = 32
"""Whole vectors, so that arrays of all implementations have the same shape."""


@pytest.fixture
def bound(ops: Operations) -> Callable[[Place], Place]:
    """bound(place): the place, with an array of its buffer's shape."""

    def bind(place: Place) -> Place:
        buffer = place.buffer
        buffer.array = ops.activations(buffer.shape, buffer.dtype)
        place.bind()
        return place

    return bind


@pytest.fixture
def tensor(bound: Callable[[Place], Place]) -> Callable[..., Tensor]:
    """tensor(*shape, needed=True): whole numbers as values and, if needed, as gradient."""
    rng = np.random.default_rng(0)

    def filled(shape: tuple[int, ...]) -> Place:
        place = bound(Place(Buffer("it", (IMAGES, *shape))))
        place.array[...] = rng.integers(-3, 4, place.array.shape)
        return place

    def make(*shape: int, needed: bool = True) -> Tensor:
        return Tensor("it", shape, filled(shape), filled(shape) if needed else None)

    return make
