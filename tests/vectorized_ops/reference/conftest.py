"""Gradients by finite differences, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest


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
