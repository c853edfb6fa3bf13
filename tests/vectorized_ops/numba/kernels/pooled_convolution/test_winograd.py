from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.kernels.convolution.dot_tiles import DOT_COLUMNS, DOT_ROWS
from vectorized_ops.numba.kernels.pooled_convolution.winograd import (
    WinogradPooledConvolution,
    winograd_fits,
)

WEIGHTS = 2
"""Place of their gradient among the results."""

LARGEST_ERROR = 2e-5
"""Of the largest result. Every pooled cell and every gradient stays below."""


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


def relative_errors(found: Any, expected: Any) -> dict[str, float]:
    return {
        name: float(
            np.abs(getattr(found, name) - getattr(expected, name)).max()
            / np.abs(getattr(expected, name)).max()
        )
        for name in ("out", "weights", "bias", "images")
    }


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data())
def test_results_follow_the_reference_for_any_shape_that_fits(
    data: st.DataObject, pooled: Any
) -> None:
    height, width = (data.draw(st.sampled_from([8, 12, 16])) for _ in range(2))
    channels = data.draw(st.integers(DOT_COLUMNS, 11))
    shape = data.draw(st.integers(1, 40)), height, width, channels
    filters = data.draw(st.integers(DOT_ROWS, 30))
    options = {name: data.draw(st.booleans()) for name in ("slices", "add", "masked")}
    found, expected = pooled(shape, filters, 5, "winograd4", normal, **options)
    assert max(relative_errors(found, expected).values()) < LARGEST_ERROR
    # Two pixels of a window may be equal but for rounding: then either is the right place.
    others = found.which != expected.which
    assert others.mean() < 1e-3


def test_error_at_the_size_of_lenet_is_that_of_the_docstring(pooled: Any) -> None:
    errors = relative_errors(*pooled((64, 12, 12, 20), 50, 5, "winograd4", normal))
    assert 1e-7 < errors["out"] < 6e-6
    assert max(errors.values()) < LARGEST_ERROR


def test_gradient_of_images_that_nobody_needs_is_left_alone(pooled: Any) -> None:
    found, expected = pooled(
        (16, 8, 8, DOT_COLUMNS), DOT_ROWS, 5, "winograd4", normal, with_images=False
    )
    assert (found.images == 99).all()
    assert np.abs(found.weights - expected.weights).max() < 1e-4


def test_bits_are_those_of_the_last_run_and_threads_change_only_sums_over_images(
    pooled: Any, same_bits: Callable[..., None]
) -> None:
    def compute() -> list[np.ndarray]:
        found, _ = pooled((50, 12, 8, 7), 9, 5, "winograd4", normal)
        return list(astuple(found))

    same_bits(compute, summed_by_thread=[WEIGHTS])


@pytest.mark.parametrize(
    ("shape", "filters", "kernel"),
    [
        ((16, 12, 12, 20), 50, 3),
        ((16, 13, 12, 20), 50, 5),
        ((16, 12, 14, 20), 50, 5),
        ((16, 12, 12, DOT_COLUMNS - 1), 50, 5),
        ((16, 12, 12, 20), DOT_ROWS - 1, 5),
        ((16, 4, 4, 20), 50, 5),
    ],
    ids=["kernel", "height", "width", "few channels", "few filters", "small map"],
)
def test_shapes_that_do_not_fit_are_refused_with_the_alternatives(
    shape: tuple[int, ...], filters: int, kernel: int
) -> None:
    assert not winograd_fits(shape, filters, kernel)
    with pytest.raises(OperationError, match="ask for the algorithm 'direct' or 'auto'"):
        WinogradPooledConvolution(shape, filters, kernel)


@pytest.mark.parametrize("masked", [False, True])
def test_activations_may_be_of_bfloat16(masked: bool, pooled: Any) -> None:
    shape = (20, 12, 16, 8)
    found, expected = pooled(shape, 9, 5, "winograd4", normal, masked=masked, rounds=True)
    assert max(relative_errors(found, expected).values()) < 1e-2
