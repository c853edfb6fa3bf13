"""Arrays as an implementation wants them, in surroundings where every slip shows.

Values are small whole numbers wherever the arithmetic is linear: float32 is exact on them in any
order of summation, so implementations must agree to the last bit, and ties are frequent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.implementations import Operations, operations
from vectorized_ops.layout import STORED

GARBAGE = 1e6
"""What lies in images that only fill up a vector, as after another batch."""

REFERENCE = operations("reference")

ROUNDED = "numba in bfloat16"
"""The implementation of that name keeps activations in bfloat16."""

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]


def implementation(name: str) -> Operations:
    """One by its name; `ROUNDED` among them."""
    return operations("numba", precision="bfloat16") if name == ROUNDED else operations(name)


class Memory:
    """Arrays of one implementation, activations in its precision.

    With `rng`, every other float array is a slice a[..., c0:c1] of a wider one whose other channels
    are NaN. `exact` makes float64 of all float32, which only the reference takes. With `rounds`
    activations have values that bfloat16 has.
    """

    def __init__(
        self,
        operations: Operations,
        rng: np.random.Generator | None = None,
        exact: bool = False,
        rounds: bool = False,
    ) -> None:
        self.operations, self._rng, self._exact = operations, rng, exact
        self._rounds = rounds
        self._arguments: list[tuple[np.ndarray, np.ndarray]] = []
        self._slices: list[tuple[np.ndarray, slice]] = []

    def holding(self, values: np.ndarray, padding: float = GARBAGE) -> np.ndarray:
        """Argument with these values; the images that it is padded with hold `padding`."""
        array = self.to_write(values, padding)
        self._arguments.append((array, array.copy()))
        return array

    def to_write(self, values: np.ndarray, padding: float = GARBAGE) -> np.ndarray:
        """Like `holding`, of an array that an operation may write."""
        if self._rounds and values.dtype == np.float32:
            values = widened(rounded(values))
        values = self.kept(self.parameters(values))
        array = self._anywhere(values.shape, values.dtype)
        array[...] = self.kept(np.array(padding, np.float32)) if values.dtype == STORED else padding
        array[: len(values)] = values
        return array

    def garbage(self, *shape: int, dtype: Any = np.float32) -> np.ndarray:
        """Array to be overwritten."""
        content = np.nan if dtype == np.float32 else 99
        return self.to_write(np.full(shape, content, dtype), padding=content)

    def parameters(self, values: np.ndarray) -> np.ndarray:
        """Copy in C order, such as weights."""
        exact = self._exact and values.dtype == np.float32
        return values.astype(np.float64 if exact else values.dtype)

    def parameters_out(self, *shape: int) -> np.ndarray:
        """Array in C order to be overwritten, such as the gradient of weights."""
        return self.parameters(np.full(shape, np.nan, np.float32))

    def check_surroundings(self) -> None:
        """Arguments are as they were, and so is everything beside the slices."""
        for array, before in self._arguments:
            assert_array_equal(array, before, err_msg="an argument was written")
        for wide, channels in self._slices:
            written = ~np.isnan(widened(wide))
            written[..., channels] = False
            assert not written.any(), f"channels beside {channels} were written"

    def kept(self, values: np.ndarray) -> np.ndarray:
        """Values as activations hold them."""
        is_rounded = values.dtype == np.float32 and self.operations.kept == STORED
        return rounded(values) if is_rounded else values

    def _anywhere(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        if self._rng is None or dtype == np.uint8 or self._rng.random() < 0.5:
            return self.operations.activations(shape, dtype)
        before, after = (int(self._rng.choice([0, 1, 3, 16])) for _ in range(2))
        wide = self.operations.activations((*shape[:-1], before + shape[-1] + after), dtype)
        wide[...] = 0x7FC0 if wide.dtype == STORED else np.nan
        channels = slice(before, before + shape[-1])
        self._slices.append((wide, channels))
        return wide[..., channels]


def check_agreement(
    name: str,
    seed: int,
    run: Callable[[Memory], Sequence[np.ndarray]],
    tolerances: Sequence[float] = (),
    least: float = 0,
) -> None:
    """What `run` returns for an implementation equals what it returns for the reference.

    To the last bit; with `tolerances`, each result to this share of the largest value of the
    reference in float64, but of no less than `least`: what cancels out leaves errors. Images beyond
    those of the reference are not looked at.
    """
    expected = run(Memory(REFERENCE, exact=bool(tolerances), rounds=name == ROUNDED))
    place = Memory(implementation(name), np.random.default_rng(seed))
    found = run(place)
    place.check_surroundings()
    tolerances = tolerances or [0] * len(expected)
    for number, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        largest = np.abs(wanted).max(where=np.isfinite(wanted), initial=least)
        tolerance = tolerances[number]
        if got.dtype == STORED:
            wanted, got = widened(rounded(wanted.astype(np.float32))), widened(got)
            tolerance += 2**-7 * (tolerance > 0)  # neighbours of what is rounded
        message = f"result {number}"
        assert_allclose(got[: len(wanted)], wanted, 0, tolerance * largest, err_msg=message)


@dataclass(frozen=True)
class Target:
    """Where a gradient goes: what it is added to (None: it is overwritten), and a mask."""

    shape: tuple[int, ...]
    before: np.ndarray | None
    mask: np.ndarray | None

    def out(self, place: Memory) -> np.ndarray:
        return place.garbage(*self.shape) if self.before is None else place.to_write(self.before)

    def options(self, place: Memory) -> dict[str, Any]:
        mask = None if self.mask is None else place.holding(self.mask)
        return {"add": self.before is not None, "mask": mask}


def draw_target(draw: Draw, rng: np.random.Generator, *shape: int) -> Target:
    """Target that is written or added to, with a mask or without."""
    before = whole_numbers(rng, *shape) if draw(st.booleans()) else None
    mask = not_all_numbers(rng, whole_numbers(rng, *shape)) if draw(st.booleans()) else None
    return Target(shape, before, mask)


def draw_rng(draw: Draw) -> tuple[int, np.random.Generator]:
    """A seed and what it generates."""
    seed = draw(st.integers(0, 999))
    return seed, np.random.default_rng(seed)


def whole_numbers(rng: np.random.Generator, *shape: int, largest: int = 3) -> np.ndarray:
    return rng.integers(-largest, largest + 1, shape).astype(np.float32)


def not_all_numbers(
    rng: np.random.Generator,
    values: np.ndarray,
    others: Sequence[float] = (np.nan, np.inf, -np.inf),
) -> np.ndarray:
    """`values`, of which some have become NaN or infinite."""
    count = min(len(others), values.size)
    values.flat[rng.choice(values.size, size=count, replace=False)] = others[:count]
    return values
