"""Optimizers on a device: their state stays there, and comes to the host when it is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.backends.torch.device_optimizer import DeviceKernels, DeviceOptimizer
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.optimizers.adamw import AdamW
from knltrain.optimizers.adaptive import AdaptiveOptimizer
from knltrain.optimizers.sgd import SGD
from vectorized_ops.parameter_groups import Clipping

from .test_graphs import Tape

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


def steps_of(optimizer: DeviceOptimizer, mirrors: Mirrors) -> list[np.ndarray]:
    """Two vectors of parameters in turn, by learning rates that change; and the state."""
    draws = np.random.default_rng(1)
    vectors, gradient = [filled(1), filled(2)], filled(0)
    for step, rate in enumerate((0.25, 0.25, 0.5, 0.125, 0.5)):
        gradient[:] = draws.standard_normal(NETWORK.packed_size, dtype=np.float32)
        mirrors.changed(gradient)
        optimizer.step(vectors[step % 2], gradient, rate)
    mirrors.to_host(*vectors)
    return [*vectors, *(each.copy() for each in optimizer.state.values())]


@pytest.mark.parametrize("name", ["sgd", "adamw", "adam"])
def test_replayed_updates_have_the_bits_of_eager_ones(name: str) -> None:
    found, made = [], list[Tape]()

    def tape() -> Tape:
        made.append(Tape())
        return made[-1]

    groups = NETWORK.parameter_groups
    for graph in (None, tape):
        mirrors = Mirrors(HOST, are_apart=True)
        kernels = DeviceKernels(mirrors, graph)
        optimizers = {
            "sgd": lambda k=kernels: SGD(groups, 0.9, 0.01, True, Clipping(norm=1.0), k.sgd),
            "adamw": lambda k=kernels: AdamW(groups, 0.9, 0.99, 1e-8, 0.1, Clipping(), k.adamw),
            "adam": lambda k=kernels: AdaptiveOptimizer(
                groups,
                0.1,
                ("first", "second"),
                lambda own: k.adaptive.AdamUpdate(own, Clipping(), False, 0.9, 0.99, 1e-8),
            ),
        }
        found.append(steps_of(DeviceOptimizer(optimizers[name](), kernels), mirrors))
    assert len(made) == 2
    for here, there in zip(*found, strict=True):
        np.testing.assert_array_equal(there, here)
