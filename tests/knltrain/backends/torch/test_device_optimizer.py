"""Optimizers on a device: their state stays there, and comes to the host when it is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.backends.torch.device_optimizer import DeviceKernels, DeviceOptimizer
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.optimizers.sgd import SGD
from vectorized_ops.parameter_groups import Clipping

NETWORK = Network("tiny", (1, 1, 3), (Dense("out", 2),))
MOMENTUM, RATE = 0.5, 0.25


@pytest.fixture
def mirrors() -> Mirrors:
    return Mirrors(HOST, are_apart=True)


@pytest.fixture
def optimizer(mirrors: Mirrors) -> DeviceOptimizer:
    kernels = DeviceKernels(mirrors)
    groups = NETWORK.parameter_groups
    return DeviceOptimizer(SGD(groups, MOMENTUM, 0.0, False, Clipping(), kernels.sgd), kernels)


def filled(value: float) -> np.ndarray:
    return np.full(NETWORK.packed_size, value, np.float32)


def test_a_step_leaves_the_new_values_on_the_device(
    mirrors: Mirrors, optimizer: DeviceOptimizer
) -> None:
    parameters, gradient = filled(1), filled(2)
    optimizer.step(parameters, gradient, RATE)
    assert (parameters == 1).all()
    mirrors.to_host(parameters)
    assert (parameters == 0.5).all()


def test_the_state_is_brought_and_may_be_written(
    mirrors: Mirrors, optimizer: DeviceOptimizer
) -> None:
    parameters = filled(1)
    assert not optimizer.state["velocity"].any()
    optimizer.step(parameters, filled(2), RATE)
    assert (optimizer.state["velocity"] == 0.5).all()
    optimizer.state["velocity"][:] = 4
    optimizer.state_written()
    optimizer.step(parameters, filled(0), RATE)
    mirrors.to_host(parameters)
    assert (parameters == 0.5 - MOMENTUM * 4).all()


def test_a_changed_vector_is_taken_from_the_host(
    mirrors: Mirrors, optimizer: DeviceOptimizer
) -> None:
    parameters = filled(1)
    optimizer.step(parameters, filled(0), RATE)
    mirrors.to_host(parameters)
    parameters += 6
    mirrors.changed(parameters)
    optimizer.step(parameters, filled(0), RATE)
    mirrors.to_host(parameters)
    assert (parameters == 7).all()
