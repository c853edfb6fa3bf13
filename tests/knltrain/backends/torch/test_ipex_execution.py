"""IPEX computes what eager PyTorch does, whatever order it keeps the weights in."""

from __future__ import annotations

import importlib.metadata

import numpy as np
import pytest

from knltrain.backends.cpu.backend import REMEMBERED_VECTORS
from knltrain.backends.torch.backend import TorchBackend
from knltrain.backends.torch.ipex_execution import IpexExecution
from knltrain.data.dataset import Batch
from knltrain.errors import ConfigError
from knltrain.network.layers import BatchNormalisation, Convolution, Dense, ReLU
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.resnet import resnet18

IMAGES = 4


def _network(*convolutions: Convolution, channels: int = 16) -> Network:
    rest = (BatchNormalisation("norm"), ReLU("type"), Dense("out", 3))
    return Network("convolutions", (9, 8, channels), (*convolutions, *rest))


NETWORKS = {
    "3x3": _network(Convolution("a", 32, 3, padding=1), Convolution("b", 16, 3)),
    "1x1": _network(Convolution("a", 32, 1, bias=False), Convolution("b", 24, 1, 2)),
    "stem": _network(Convolution("a", 20, 5, 2, 2), channels=3),
    "groups": _network(Convolution("a", 32, 3, padding=1, groups=2, bias=False)),
    "depthwise": _network(Convolution("a", 16, 3, padding=1, groups=16)),
    "dilated": _network(Convolution("a", 16, (3, 1), (1, 2), (2, 0), dilation=2)),
    "odd": _network(Convolution("a", 7, 3), Convolution("b", 5, (2, 3)), channels=5),
    "resnet-18": resnet18(),
}


def _parameters(network: Network, seed: int = 3) -> ParameterVector:
    """Initial weights, and biases that are not zero."""
    parameters = ParameterVector(network)
    parameters.initialise(seed)
    for spec in network.parameters:
        if spec.role in ("bias", "shift"):
            parameters.views[spec.name][...] = np.linspace(-0.2, 0.3, spec.size)
    return parameters


def _batch(network: Network) -> Batch:
    images = np.random.default_rng(1).standard_normal((IMAGES, *network.input_shape), np.float32)
    return Batch(images, np.arange(IMAGES) % 3)


def _backends(network: Network) -> tuple[TorchBackend, TorchBackend]:
    return (
        TorchBackend(network, IMAGES, 1),
        TorchBackend(network, IMAGES, 1, IpexExecution(network)),
    )


def test_ipex_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(package: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    with pytest.raises(ConfigError, match="intel-extension-for-pytorch missing"):
        IpexExecution(NETWORKS["1x1"])


@pytest.mark.ipex
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_eager_pytorch(name: str) -> None:
    network = NETWORKS[name]
    eager, ipex = _backends(network)
    parameters, batch = _parameters(network), _batch(network)
    for factor in (1.0, 0.5):  # The second time the module is there, and must see the change.
        parameters.packed *= np.float32(factor)
        expected, found = ParameterVector(network), ParameterVector(network)
        expected_loss = eager.loss_and_gradient(batch, parameters.packed, expected.packed)
        found.packed.fill(np.nan)
        loss = ipex.loss_and_gradient(batch, parameters.packed, found.packed)
        assert loss == pytest.approx(expected_loss, rel=1e-5)
        for spec in network.parameters:
            scale = np.abs(expected.views[spec.name]).max()
            assert scale > 0
            np.testing.assert_allclose(
                found.views[spec.name], expected.views[spec.name], rtol=1e-3, atol=1e-4 * scale
            )
        np.testing.assert_allclose(
            ipex.evaluate(batch, parameters.packed),
            eager.evaluate(batch, parameters.packed),
            rtol=1e-4,
        )


@pytest.mark.ipex
@pytest.mark.usefixtures("one_thread")
def test_convolutions_are_ipexs_own_and_nothing_else_is_copied() -> None:
    network = NETWORKS["3x3"]
    parameters = _parameters(network)
    execution = IpexExecution(network)
    module = execution.module_of(parameters.packed)
    kinds = {name: type(layer).__name__ for name, layer in module.named_children()}
    assert kinds["a"] == kinds["b"] == "_IPEXConv2d"
    for spec in network.parameters:
        if not spec.is_statistic and not (spec.role == "weights" and spec.layer in ("a", "b")):
            layer = dict(module.named_children())[spec.layer]
            attribute = {"shift": "bias", "scale": "weight", "weights": "weight"}
            tensor = getattr(layer, attribute.get(spec.role, spec.role))
            assert tensor.data_ptr() == parameters.views[spec.name].ctypes.data


@pytest.mark.ipex
@pytest.mark.usefixtures("one_thread")
def test_many_vectors_in_turn_are_told_apart() -> None:
    network = NETWORKS["stem"]
    eager, ipex = _backends(network)
    batch, gradient = _batch(network), ParameterVector(network)
    vectors = [_parameters(network, seed).packed for seed in range(REMEMBERED_VECTORS + 2)]
    for vector in vectors * 2:
        expected = eager.loss_and_gradient(batch, vector, gradient.packed)
        loss = ipex.loss_and_gradient(batch, vector, gradient.packed)
        assert loss == pytest.approx(expected, rel=1e-5)
