"""Gradients by finite differences, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.testing import assert_allclose


def numerical_gradient(
    function: Callable[[], float], values: np.ndarray, step: float = 1e-3
) -> np.ndarray:
    """Central differences of `function`, which reads `values`, at each of them."""
    gradient = np.empty_like(values)
    for place in np.ndindex(values.shape):
        before = values[place]
        values[place] = before + step
        above = function()
        values[place] = before - step
        gradient[place] = (above - function()) / (2 * step)
        values[place] = before
    return gradient


@pytest.fixture(scope="session")
def differences() -> Callable[..., np.ndarray]:
    return numerical_gradient


@pytest.fixture(scope="session")
def gradients_agree() -> Callable[..., None]:
    return check_gradients


def check_gradients(
    forward: Callable[[], np.ndarray],
    gradient: np.ndarray,
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    step: float = 1e-3,
    tolerance: float = 1e-8,
) -> None:
    """Each found gradient equals the differences of sum(forward() * gradient) by its values.

    `pairs` are (values, found gradient); `forward` reads the values.
    """
    for values, found in pairs:
        expected = numerical_gradient(lambda: float((forward() * gradient).sum()), values, step)
        assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
