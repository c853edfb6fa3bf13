"""SGD takes Caffe's steps, in place, with the kernel that it is given."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.network.parameter_groups import ParameterGroup
from knltrain.optimizers.sgd import SGD
from vectorized_ops.parameter_groups import Clipping
from vectorized_ops.reference.sgd import SGDUpdate

SIZE = 50
STEPS = 4


def _sgd(momentum: float, decay: float, nesterov: bool = False, **clipping: float) -> SGD:
    whole = ParameterGroup(0, SIZE, 1.0, 1.0, None, ("all",))
    return SGD([whole], momentum, decay, nesterov, Clipping(**clipping), SGDUpdate)


def _vectors(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(4)
    return [generator.standard_normal(SIZE, np.float32) for _ in range(count)]


def _caffe(
    parameters: np.ndarray,
    gradients: list[np.ndarray],
    rates: list[float],
    momentum: float,
    decay: float,
    nesterov: bool,
) -> np.ndarray:
    """SGDSolver and NesterovSolver of Caffe, in float64."""
    parameters = parameters.astype(np.float64)
    history = np.zeros(SIZE)
    for gradient, rate in zip(gradients, rates, strict=True):
        before = history
        history = rate * (gradient + decay * parameters) + momentum * before
        parameters = parameters - (
            (1 + momentum) * history - momentum * before if nesterov else history
        )
    return parameters


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize(("momentum", "decay"), [(0.9, 0.0), (0.9, 0.1), (0.0, 0.1), (0.0, 0.0)])
def test_steps_with_changing_learning_rate_are_caffe_s(
    momentum: float, decay: float, nesterov: bool
) -> None:
    parameters, *gradients = _vectors(1 + STEPS)
    rates = [0.1, 0.2, 0.05, 0.01]
    expected = _caffe(parameters, gradients, rates, momentum, decay, nesterov)
    optimizer = _sgd(momentum, decay, nesterov)
    for gradient, rate in zip(gradients, rates, strict=True):
        optimizer.step(parameters, gradient, rate)
    np.testing.assert_allclose(parameters, expected, rtol=1e-5, atol=1e-6)


def test_a_rate_that_drops_does_not_change_steps_already_taken() -> None:
    """By hand; PyTorch's form, with the rate outside of the velocity, ends at 0.84145."""
    parameters, gradient = np.ones(SIZE, np.float32), np.full(SIZE, 0.5, np.float32)
    optimizer = _sgd(0.9, 0.0)
    for rate, expected in ((0.1, 0.95), (0.1, 0.855), (0.01, 0.7645)):
        optimizer.step(parameters, gradient, rate)
        np.testing.assert_allclose(parameters, expected, rtol=1e-6)
    parameters = np.ones(SIZE, np.float32)
    _sgd(0.9, 0.0, nesterov=True).step(parameters, gradient, 0.1)
    np.testing.assert_allclose(parameters, 0.905, rtol=1e-6)


def test_state_copied_into_a_new_optimizer_continues_the_run() -> None:
    parameters, *gradients = _vectors(1 + STEPS)
    first = _sgd(0.9, 0.1)
    for gradient in gradients[:2]:
        first.step(parameters, gradient, 0.1)
    continued = parameters.copy()
    second = _sgd(0.9, 0.1)
    for name, values in first.state.items():
        second.state[name][...] = values
    for gradient in gradients[2:]:
        first.step(parameters, gradient, 0.1)
        second.step(continued, gradient, 0.1)
    assert list(first.state) == ["velocity"]
    np.testing.assert_array_equal(continued, parameters)


def test_each_segment_moves_in_its_own_way() -> None:
    groups = [
        ParameterGroup(0, 16, 2.0, 0.0, None, ("a",)),
        ParameterGroup(16, 32, 1.0, 0.5, None, ("b",)),
        ParameterGroup(32, SIZE, 1.0, 1.0, 0.25, ("c",)),
    ]
    optimizer = SGD(groups, 0.9, 0.5, False, Clipping(), SGDUpdate)
    parameters, gradient = np.ones(SIZE, np.float32), np.ones(SIZE, np.float32)
    optimizer.step(parameters, gradient, 0.1)
    np.testing.assert_allclose(parameters[:16], 1 - 0.2)
    np.testing.assert_allclose(parameters[16:32], 1 - 0.1 * (1 + 0.25))
    np.testing.assert_allclose(parameters[32:], 1 - 0.25)


def test_step_is_no_longer_than_the_clipped_gradient() -> None:
    parameters = np.zeros(SIZE, np.float32)
    gradient = np.full(SIZE, 9, np.float32)
    _sgd(0.0, 0.0, norm=3, value=5).step(parameters, gradient, 0.5)
    np.testing.assert_allclose(np.linalg.norm(parameters), 1.5, rtol=1e-6)


def test_velocity_starts_at_zero_on_a_cache_line() -> None:
    velocity = _sgd(0.9, 0.0).state["velocity"]
    assert (velocity.shape, velocity.dtype) == ((SIZE,), np.float32)
    assert velocity.ctypes.data % 64 == 0
    assert not velocity.any()
