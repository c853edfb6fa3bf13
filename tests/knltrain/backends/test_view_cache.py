from __future__ import annotations

import numpy as np
import pytest

from knltrain.backends.view_cache import REMEMBERED_VECTORS, ViewCache


def test_same_memory_gives_the_same_thing_and_another_shape_another() -> None:
    views = ViewCache(lambda vector: vector[:])
    vector = np.zeros(8, np.float32)
    first = views.of(vector)
    assert views.of(vector[:]) is first
    for other in (vector[:4], vector[::2], vector.view(np.int32), np.zeros(8, np.float32)):
        assert views.of(other) is not first


def test_only_the_latest_are_kept_until_cleared() -> None:
    made: list[int] = []
    views = ViewCache(lambda vector: (made.append(vector.size), vector))
    vectors = [np.zeros(size, np.float32) for size in range(1, REMEMBERED_VECTORS + 2)]
    for vector in (*vectors, vectors[-1], vectors[0]):
        views.of(vector)
    assert made == [*range(1, REMEMBERED_VECTORS + 2), 1]
    views.clear()
    views.of(vectors[0])
    assert made[-2:] == [1, 1]


def test_vector_that_is_refused_displaces_nothing() -> None:
    views = ViewCache(lambda vector: (1 // vector.size, vector))
    kept = [np.zeros(1, np.float32) for _ in range(REMEMBERED_VECTORS)]
    made = [views.of(vector) for vector in kept]
    with pytest.raises(ZeroDivisionError):
        views.of(np.zeros(0, np.float32))
    assert all(views.of(vector) is one for vector, one in zip(kept, made, strict=True))
