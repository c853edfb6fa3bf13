"""LARS gives each array of weights a rate of its own, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.network.layers import ParameterSpec
from knltrain.optimizers.lars import LARS
from vectorized_ops.parameter_groups import Clipping
from vectorized_ops.reference.lars import LARSUpdate

PARAMETERS = (
    ParameterSpec("a.weights", (2, 8), "weights", offset=0),
    ParameterSpec("a.bias", (2,), "bias", offset=16),
    ParameterSpec("b.weights", (20,), "weights", offset=32),
    ParameterSpec("b.running_mean", (16,), "running_mean", offset=64, statistic_momentum=0.5),
)
SIZE = 80
TRUST = 0.01


def _lars(weight_decay: float = 0.0) -> LARS:
    return LARS(PARAMETERS, SIZE, 0.9, weight_decay, TRUST, Clipping(), LARSUpdate)


def _vectors() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(4)
    parameters, gradient = (generator.standard_normal(SIZE, np.float32) for _ in range(2))
    for vector in (parameters, gradient):
        vector[18:32] = vector[52:64] = 0
    return parameters, gradient


def test_arrays_of_weights_move_by_the_same_share_of_their_norms() -> None:
    parameters, gradient = _vectors()
    before = parameters.copy()
    _lars().step(parameters, gradient, 2.0)
    moved = parameters - before
    for weights in (slice(0, 16), slice(32, 52)):
        share = np.linalg.norm(moved[weights]) / np.linalg.norm(before[weights])
        assert share == pytest.approx(2.0 * TRUST, rel=1e-5)


def test_biases_and_statistics_are_not_adapted_and_do_not_decay() -> None:
    parameters, gradient = _vectors()
    before = parameters.copy()
    _lars(weight_decay=0.1).step(parameters, gradient, 0.2)
    np.testing.assert_allclose(parameters[16:18], before[16:18] - 0.2 * gradient[16:18], rtol=1e-5)
    np.testing.assert_allclose(parameters[64:], before[64:] - 0.5 * gradient[64:], rtol=1e-5)


def test_weights_decay_within_their_trust_ratio() -> None:
    parameters, gradient = _vectors()
    w, g = parameters[:16].copy(), gradient[:16]
    _lars(weight_decay=0.1).step(parameters, gradient, 0.2)
    norms = np.linalg.norm(g) + 0.1 * np.linalg.norm(w)
    expected = w - 0.2 * TRUST * np.linalg.norm(w) / norms * (g + 0.1 * w)
    np.testing.assert_allclose(parameters[:16], expected, rtol=1e-5)


def test_state_copied_into_a_new_optimizer_continues_the_run() -> None:
    parameters, gradient = _vectors()
    first, second = _lars(0.1), _lars(0.1)
    first.step(parameters, gradient, 0.5)
    continued = parameters.copy()
    for name, values in first.state.items():
        second.state[name][...] = values
    first.step(parameters, gradient, 0.5)
    second.step(continued, gradient, 0.5)
    assert list(first.state) == ["velocity"]
    np.testing.assert_array_equal(continued, parameters)
