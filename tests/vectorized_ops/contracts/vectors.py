"""Operations on flat vectors, compiled and plain: the same bits for any length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Update = Callable[..., None]

SIZES = [0, 1, 15, 17, 1000, 5000]


def vectors_of(number: int, size: int) -> list[np.ndarray]:
    """Parts of longer vectors, which need not begin at a cache line."""
    rng = np.random.default_rng([number, size])
    return [rng.standard_normal(size + 3, np.float32)[3:] for _ in range(number)]


def check_same_bits(compiled: Update, plain: Update, number: int, size: int) -> None:
    found, expected = vectors_of(number, size), vectors_of(number, size)
    compiled(*found)
    plain(*expected)
    for got, wanted in zip(found, expected, strict=True):
        assert np.array_equal(got.view(np.int32), wanted.view(np.int32))
