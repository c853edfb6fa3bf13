"""Networks and their parameters go to PyTorch and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.network.layers import Convolution, Dense, MaxPooling, ReLU
from knltrain.network.lenet import lenet
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.torch_modules import from_torch, to_torch

NETWORK = Network(
    "imported",
    (9, 8, 2),
    (
        Convolution("conv1", 3, 3, stride=2, padding=1),
        ReLU("relu1"),
        MaxPooling("pool1", 2, 1),
        Dense("dense1", 5),
        ReLU("relu2"),
        Dense("dense2", 4),
    ),
)


def _initialised(network: Network) -> ParameterVector:
    parameters = ParameterVector(network)
    parameters.initialise(seed=3)
    return parameters


def test_modules_are_named_like_the_layers() -> None:
    module = to_torch(lenet(), _initialised(lenet()))
    assert [name for name, _ in module.named_children()] == [
        "conv1",
        "pool1",
        "conv2",
        "pool2",
        "ip1_flatten",
        "ip1",
        "relu1",
        "ip2",
    ]
    assert sum(parameter.numel() for parameter in module.parameters()) == 431_080


def test_modules_share_memory_with_the_packed_vector() -> None:
    parameters = _initialised(NETWORK)
    module = to_torch(NETWORK, parameters)
    parameters.packed[0] = 5
    assert module.get_parameter("conv1.weight")[0, 0, 0, 0] == 5
    with torch.no_grad():
        module.get_parameter("dense2.bias")[3] = 7
    assert parameters.views["dense2.bias"][3] == 7


def test_modules_compute_the_shapes_that_the_network_infers() -> None:
    values = torch.randn(2, 2, 9, 8)
    module = to_torch(NETWORK, _initialised(NETWORK))
    shapes = [(9, 8, 2)]
    for child in module.children():
        values = child(values)
        if not isinstance(child, nn.Flatten):
            _, channels, *extent = values.shape
            shapes.append((*extent, channels))
    assert tuple(shapes) == NETWORK.shapes


def test_dense_layer_flattens_channels_first() -> None:
    network = Network("flat", (2, 3, 2), (Dense("dense", 1),))
    parameters = ParameterVector(network)
    images = np.arange(12, dtype=np.float32).reshape(1, 2, 3, 2)  # N, H, W, C
    parameters.views["dense.weights"][0, 3 * 1 + 2] = 1  # channel 0, row 1, column 2
    output = to_torch(network, parameters)(torch.from_numpy(images).permute(0, 3, 1, 2))
    assert output.item() == images[0, 1, 2, 0]


def test_network_and_parameters_survive_the_way_there_and_back() -> None:
    parameters = _initialised(NETWORK)
    network, copied = from_torch(to_torch(NETWORK, parameters), (9, 8, 2))
    assert network == Network(
        "imported",
        NETWORK.input_shape,
        NETWORK.layers,
    )
    np.testing.assert_array_equal(copied.packed, parameters.packed)
    assert not np.shares_memory(copied.packed, parameters.packed)


def test_plain_sequential_is_understood() -> None:
    module = nn.Sequential(
        nn.Conv2d(1, 2, (3, 3)), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    )
    network, parameters = from_torch(module, (6, 6, 1), name="mine")
    assert network.name == "mine"
    assert network.layers == (
        Convolution("0", 2, 3),
        MaxPooling("1", 2, 2),
        ReLU("2"),
        Dense("4", 3),
    )
    images = torch.randn(5, 1, 6, 6)
    np.testing.assert_array_equal(
        to_torch(network, parameters)(images).detach().numpy(), module(images).detach().numpy()
    )


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Dropout(), "module '0': Dropout is not supported: expected Conv2d, MaxPool2d"),
        (nn.Conv2d(2, 2, 3, bias=False), "module '0' has no bias: build it with bias=True"),
        (nn.Linear(2, 2, bias=False), "module '0' has no bias"),
        (nn.Conv2d(2, 2, (3, 1)), r"module '0': kernel_size = \(3, 1\), expected the same"),
        (nn.Conv2d(2, 2, 3, padding="same"), "module '0': padding = 'same'"),
        (nn.Conv2d(2, 2, 3, groups=2), "module '0': groups = 2, only 1 is supported"),
        (nn.Conv2d(2, 2, 3, dilation=2), r"module '0': dilation = \(2, 2\), only 1"),
        (nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), "padding_mode = reflect"),
        (nn.MaxPool2d(2, padding=1), "module '0': padding = 1, only 0 is supported"),
        (nn.MaxPool2d(2, ceil_mode=True), "module '0': ceil_mode = True, only False"),
    ],
)
def test_module_that_a_network_cannot_express_is_named(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(nn.Sequential(module), (8, 8, 2))


@pytest.mark.parametrize(
    ("modules", "name"),
    [
        ([nn.Linear(2, 3)], "0"),
        ([nn.Flatten(), nn.ReLU(), nn.Linear(128, 3)], "1"),
        ([nn.Flatten(), nn.Linear(128, 3), nn.Flatten(), nn.Linear(3, 3)], "3"),
        ([nn.ReLU(), nn.Flatten()], "1"),
    ],
)
def test_flatten_anywhere_but_before_the_first_linear_is_refused(
    modules: list[nn.Module], name: str
) -> None:
    with pytest.raises(NetworkError, match=f"module '{name}': .*Flatten"):
        from_torch(nn.Sequential(*modules), (8, 8, 2))


def test_image_shape_that_the_modules_do_not_take_is_refused() -> None:
    with pytest.raises(NetworkError, match=r"0\.weights.* \(2, 3, 3, 3\).*\(2, 1, 3, 3\)"):
        from_torch(nn.Sequential(nn.Conv2d(1, 2, 3)), (8, 8, 3))
