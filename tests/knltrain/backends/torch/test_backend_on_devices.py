"""A backend whose device has memory of its own computes what it does on the host.

The device of most tests is the host with vectors apart, to the same bits. Those marked `gpu` need a
device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from knltrain.backends.torch.backend import TorchBackend
from knltrain.backends.torch.devices import device_named
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.data.dataset import Batch
from knltrain.network.layers import BatchNormalisation
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.alexnet import alexnet
from knltrain.network.zoo.cifar_quick import cifar_quick
from knltrain.network.zoo.cifar_resnet import resnet20
from knltrain.network.zoo.googlenet import googlenet
from knltrain.network.zoo.lenet import lenet
from knltrain.vectors import aligned_zeros

NETWORKS: dict[str, Callable[[], Network]] = {
    "lenet": lenet,
    "cifar-quick": cifar_quick,
    "resnet-20": resnet20,
    "alexnet": alexnet,
    "googlenet": googlenet,
}
LONG = {"alexnet", "googlenet"}
ALL = [
    pytest.param(name, marks=pytest.mark.long) if name in LONG else pytest.param(name)
    for name in NETWORKS
]


def batch_for(network: Network, images: int) -> Batch:
    draws = np.random.default_rng(5)
    values = draws.standard_normal((images, *network.input_shape), np.float32)
    return Batch(values, draws.integers(0, 10, images))


def computed(
    network: Network, mirrors: Mirrors, precision: str = "float32"
) -> tuple[float, np.ndarray, tuple[float, int], np.ndarray]:
    """Loss and gradient of a second step, and an evaluation with its logits."""
    parameters, gradient = ParameterVector(network), aligned_zeros(network.packed_size)
    parameters.initialise(3)
    batch = batch_for(network, 4)
    backend = TorchBackend(network, 4, 1, mirrors=mirrors, precision=precision)
    backend.loss_and_gradient(batch, parameters.packed, gradient)
    parameters.packed -= np.float32(0.01) * gradient
    loss = backend.loss_and_gradient(batch, parameters.packed, gradient)
    classes = network.shape_of(network.outputs[0].layer)[-1]
    logits = np.zeros((4, classes), np.float32)
    evaluation = backend.evaluate(batch, parameters.packed, logits)
    assert backend.first_non_finite(batch, parameters.packed) is None
    backend.close()
    return loss, gradient, evaluation, logits


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ALL)
def test_vectors_that_are_apart_give_the_same_bits(
    one_thread: None, name: str, precision: str
) -> None:
    network = NETWORKS[name]()
    here = computed(network, Mirrors(), precision)
    there = computed(network, Mirrors(HOST, are_apart=True), precision)
    assert here[0] == there[0]
    assert here[2] == there[2]
    np.testing.assert_array_equal(here[1], there[1])
    np.testing.assert_array_equal(here[3], there[3])
    assert here[1].any()


def test_statistics_of_frozen_layers_are_seen_on_a_device(
    one_thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module is made while parameters are still 0, and what is moved to a device is copied."""
    network = resnet20()
    frozen = [
        replace(each, frozen=True) if isinstance(each, BatchNormalisation) else each
        for each in network.layers
    ]
    network = replace(network, layers=tuple(frozen))
    parameters, gradient = ParameterVector(network), aligned_zeros(network.packed_size)
    batch, to = batch_for(network, 2), torch.Tensor.to

    def moved(values: torch.Tensor, *given: object, **how: object) -> torch.Tensor:
        return to(values, *given, **how).clone()  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(torch.Tensor, "to", moved)
    backend = TorchBackend(network, 2, 1, mirrors=Mirrors(HOST, are_apart=True))
    backend.loss_and_gradient(batch, parameters.packed, gradient)
    parameters.initialise(3)
    loss = backend.loss_and_gradient(batch, parameters.packed, gradient)
    here = TorchBackend(network, 2, 1)
    assert loss == here.loss_and_gradient(batch, parameters.packed, gradient.copy())
    assert np.isfinite(loss)
    there = backend._mirrors.packed(parameters.packed)
    buffers = dict(backend._execution.module_of(parameters.packed).named_buffers())
    means = [values for name, values in buffers.items() if name.endswith("running_mean")]
    assert means
    for values in means:
        assert 0 <= values.data_ptr() - there.data_ptr() < there.nbytes
    for each in (backend, here):
        each.close()


def test_bfloat16_rounds_products_and_keeps_the_loss_in_float32(one_thread: None) -> None:
    exact, rounded = (
        computed(lenet(), Mirrors(), precision) for precision in ("float32", "bfloat16")
    )
    assert exact[0] != rounded[0]
    assert rounded[0] == pytest.approx(exact[0], rel=0.02)
    error = np.linalg.norm(rounded[1] - exact[1]) / np.linalg.norm(exact[1])
    assert 1e-4 < error < 0.2
    assert np.float32(rounded[0]) != torch.tensor(rounded[0]).bfloat16().item()


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_device_computes_what_the_host_does(name: str, precision: str) -> None:
    if name == "alexnet":
        pytest.skip("dropout draws differently on a device")
    network = NETWORKS[name]()
    here = computed(network, Mirrors())
    there = computed(network, Mirrors(device_named("auto")), precision)
    bound = {"float32": 1e-4, "tf32": 5e-3, "bfloat16": 3e-2}[precision]
    assert there[0] == pytest.approx(here[0], rel=bound)
    error = np.linalg.norm(there[1] - here[1]) / np.linalg.norm(here[1])
    assert error < 10 * bound
