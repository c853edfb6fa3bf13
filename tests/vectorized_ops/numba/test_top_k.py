from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.numba import top_k
from vectorized_ops.reference import top_k as reference

SIZE = 70_003
KINDS = ["normal", "any bits", "equal", "zero", "sorted", "few"]


def vector(kind: str, size: int) -> np.ndarray:
    rng = np.random.default_rng([size, KINDS.index(kind)])
    if kind == "any bits":
        return rng.integers(0, 2**32, size, np.uint32).view(np.float32)
    if kind == "sorted":  # all large ones lie where a sample of the others does not look
        return np.sort(rng.standard_normal(size, np.float32))
    if kind == "few":
        return np.where(rng.random(size) < 1e-4, np.float32(7), np.float32(0))
    if kind == "equal":
        return rng.choice([-1, 1], size).astype(np.float32)
    return rng.standard_normal(size, np.float32) * (kind == "normal")


def by(implementation: object, kind: str, size: int, count: int, room: int) -> list[np.ndarray]:
    values, residual = vector(kind, size), vector("zero" if kind == "any bits" else kind, size)
    places, chosen = np.zeros(count, np.int32), np.zeros(count, np.float32)
    scratch = np.zeros(room, np.int32)
    implementation.encode_largest(values, residual, places, chosen, scratch)  # type: ignore[attr-defined]
    return [places, chosen.view(np.int32), residual.view(np.int32)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 700, 30_000, SIZE])
@pytest.mark.filterwarnings("ignore:(invalid|overflow)")
def test_largest_are_those_of_reference_to_the_last_bit(kind: str, count: int) -> None:
    expected = by(reference, kind, SIZE, count, 0)
    for room in (0, 1500, top_k.candidates_for(count)):
        found = by(top_k, kind, SIZE, count, room)
        for got, wanted in zip(found, expected, strict=True):
            assert np.array_equal(got, wanted)


@pytest.mark.parametrize("size", [1, 2, 15, 1023, 1025])
def test_short_vectors_are_those_of_reference(size: int) -> None:
    for count in {1, (size + 1) // 2, size}:
        room = top_k.candidates_for(count)
        expected = by(reference, "normal", size, count, room)
        for got, wanted in zip(by(top_k, "normal", size, count, room), expected, strict=True):
            assert np.array_equal(got, wanted)


def test_chosen_values_are_added_where_they_were() -> None:
    total, wanted = np.ones((2, 9), np.float32)
    places, chosen = np.array([0, 8], np.int32), np.array([2, -1], np.float32)
    top_k.add_largest(places, chosen, total)
    reference.add_largest(places, chosen, wanted)
    assert np.array_equal(total, wanted)


def test_what_does_not_fit_is_refused() -> None:
    a, b, places = np.zeros(3, np.float32), np.zeros(4, np.float32), np.zeros(3, np.int32)
    none = np.zeros(0, np.int32)
    with pytest.raises(ValueError, match="same length"):
        top_k.encode_largest(a, b, places, a.copy(), none)
    with pytest.raises(ValueError, match="from 1 to that of values"):
        top_k.encode_largest(a, a.copy(), none, np.zeros(0, np.float32), none)
    with pytest.raises(ValueError, match="same length"):
        top_k.add_largest(places, b, a)
    with pytest.raises(ValueError, match="not in total"):
        top_k.add_largest(places + 3, a.copy(), a)
