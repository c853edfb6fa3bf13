"""PyTorch modules become networks that compute the same, or what cannot is named with its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.network.graph import Output
from knltrain.network.layers import (
    Addition,
    Concatenation,
)
from knltrain.network.network import Network
from vectorized_ops.torch import optimize, plain

from .importing import Forward, images_of, imported_of


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding="same", bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        out = self.norm(self.conv(maps))
        out += maps
        return self.relu(out)


class Branched(nn.Module):
    """All that a forward may do beside its submodules, and a head that only trains."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.blocks = nn.Sequential(Block(4), Block(4))
        self.head = nn.Linear(8, 5)
        self.auxiliary = nn.Linear(4 * 4 * 4, 5)

    def forward(self, images: torch.Tensor) -> Any:
        maps = self.blocks(torch.relu(self.stem(images)))
        maps = F.max_pool2d(maps, 2)
        both = torch.cat([maps, F.leaky_relu(maps, 0.1)], dim=1)
        logits = self.head(F.dropout(both, 0.2, self.training).mean([2, 3]))
        if not self.training:
            return logits
        return logits, self.auxiliary(maps.view(maps.size(0), -1))


def test_what_a_forward_does_itself_is_part_of_the_network() -> None:
    imported = imported_of(Branched(), images_of(), 0.3)
    network = imported.network
    assert [layer.name for layer in network.layers] == [
        *("stem", "relu", "blocks.0.conv", "blocks.0.norm", "blocks.0.add", "blocks.0.relu"),
        *("blocks.1.conv", "blocks.1.norm", "blocks.1.add", "blocks.1.relu"),
        *("max_pool2d", "leaky_relu", "cat", "dropout", "mean", "head", "auxiliary"),
    ]
    assert network.outputs == (Output("head"), Output("auxiliary", 0.3))
    assert network.layers[4] == Addition("blocks.0.add", inputs=("blocks.0.norm", "relu"))
    assert Concatenation("cat", inputs=("max_pool2d", "leaky_relu")) in network.layers
    assert imported.keys["blocks.1.norm.running_variance"] == "blocks.1.norm.running_var"


def test_the_users_module_comes_back_with_the_networks_values() -> None:
    module = Branched()
    counter = module.state_dict()["blocks.0.norm.num_batches_tracked"]
    imported = from_torch(module, images_of(), (0.4,))
    before = {key: values.clone() for key, values in module.state_dict().items()}
    imported.parameters.packed += 1
    for key, values in module.state_dict().items():
        torch.testing.assert_close(values, before[key])  # copied, not shared
    assert imported.to_torch() is module
    for name, key in imported.keys.items():
        np.testing.assert_array_equal(module.state_dict()[key], imported.parameters.views[name])
    assert counter == 0
    assert module.training


def test_weights_of_losses_are_numbers() -> None:
    with pytest.raises(NetworkError, match=r"auxiliary_weights = 0.3: expected numbers, as in"):
        from_torch(Branched(), images_of(), 0.3)  # type: ignore[arg-type]


def test_modules_called_twice_are_two_layers() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.lrn(own.relu(own.first(images)))
        return own.lrn(own.relu(own.second(maps)))

    children = {"first": nn.Conv2d(2, 2, 1), "second": nn.Conv2d(2, 2, 1)}
    module = Forward(work, **children, relu=nn.ReLU(), lrn=nn.LocalResponseNorm(3))
    names = [layer.name for layer in imported_of(module, images_of()).network.layers]
    assert names == ["first", "relu", "lrn", "second", "relu_1", "lrn_1"]


def test_parameters_that_forward_uses_itself_get_layers_of_its_operations() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = nn.Parameter(torch.randn(3, 2, 1, 1))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return F.conv2d(images, self.kernel).mean((-1, -2))

    imported = from_torch(Own(), images_of(), name="mine")
    assert imported.keys == {"conv2d.weights": "kernel"}
    assert imported.network.name == "mine"


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_wrappers_are_taken_off() -> None:
    module = nn.Sequential(nn.Conv2d(2, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    wrapped = nn.DataParallel(torch.compile(module))
    imported = from_torch(wrapped, images_of())
    assert imported.keys == {"0.weights": "0.weight", "0.bias": "0.bias"}
    assert imported.to_torch() is module


def test_optimised_module_is_imported_once_it_is_plain() -> None:
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))
    from_torch(plain(optimize(module, keep_memory=False)), images_of())


def _of(work: Callable[[Any, torch.Tensor], Any]) -> nn.Module:
    return Forward(work, conv=nn.Conv2d(2, 2, 1), norm=nn.BatchNorm2d(2))


def _shared(own: Any, images: torch.Tensor) -> Any:
    return own.conv(own.conv(images))


class Reversed(torch.autograd.Function):
    """The gradient is not that of the forward pass."""

    @staticmethod
    def forward(ctx: Any, maps: torch.Tensor) -> torch.Tensor:
        return maps.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return -gradient


def _hooked(own: Any, images: torch.Tensor) -> Any:
    maps = own.conv(images)
    if maps.requires_grad:
        maps.register_hook(lambda gradient: 2 * gradient)
    return maps


class Filtered(nn.Module):
    """A filter that is not trained."""

    def __init__(self, persistent: bool) -> None:
        super().__init__()
        self.register_buffer("filter", torch.ones(2, 1, 3, 3), persistent=persistent)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return F.conv2d(images, self.filter, groups=2)  # type: ignore[arg-type]


def test_branch_that_nobody_takes_is_left_out() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        own.norm(images)
        return own.conv(images)

    assert [layer.name for layer in _network(_of(work)).layers] == ["conv"]


def test_names_are_made_of_what_names_may_have() -> None:
    module = Forward(lambda own, images: own._modules["a b"](images))
    module._modules["a b"] = nn.Conv2d(2, 2, 1)
    assert [layer.name for layer in _network(module).layers] == ["a_b"]
    assert [layer.name for layer in _network(nn.Conv2d(2, 2, 1)).layers] == ["conv2d"]


def test_example_stays_as_it_is() -> None:
    images = images_of()
    before = images.clone()
    from_torch(_of(lambda own, images: own.conv(F.relu_(images))), images)
    torch.testing.assert_close(images, before)


def _network(module: nn.Module) -> Network:
    return from_torch(module, images_of()).network


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (_of(lambda own, images: Reversed.apply(own.conv(images))), "gradients of .conv.weight."),
        (_of(_hooked), "gradients of 'conv.weight' differ .*gradients that are those of the"),
        (Filtered(persistent=True), "'filter' is none: expected a parameter"),
        (Filtered(persistent=False), "'filter' is none: expected a parameter"),
        (_of(lambda own, images: own.conv(images).view(-1, 4, 8, 8)), "has no graph|view to"),
        (_of(lambda own, images: own.conv(images).mean()), "a mean over axes None"),
        (_of(lambda own, images: own.conv(images) + images.shape[0]), "a sum with .*expected ano"),
        (
            _of(lambda own, images: own.conv(images) + own.conv.bias.view(2, 1, 1)),
            "view computes from parameters",
        ),
        (_of(lambda own, images: torch.cat([images, images], 1)), "cat of one value with itself"),
        (nn.Sequential(nn.Conv2d(2, 2, 1), nn.Dropout(1.0)), "module '1' .Dropout.: .*rate = 1"),
        (nn.Sequential(nn.Softmax(1)), r"module '0' \(Softmax\): unknown operation 'softmax'"),
        (nn.Sequential(nn.Flatten(2)), r"'0' \(Flatten\): flatten to .*expected a flatten of maps"),
        (nn.Sequential(nn.ReLU(), nn.Flatten()), "output 'flatten' of Sequential has the shape"),
        (nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1)), "the shape .N, 2, 1, 1.: expected"),
        (nn.Linear(8, 3), "linear of feature maps, expected flattened maps or vectors"),
        (_of(lambda own, images: 2 * own.conv(images)), "importing.py:.*self.work.*'mul'"),
        (_of(_shared), "'conv.weight' is a parameter of 'conv', too: expected parameters"),
        (_of(lambda own, images: F.conv2d(images, own.conv.weight * 2)), "from parameters alone"),
        (_of(lambda own, images: (own.conv(images), images)), "2 outputs in training, and"),
        (_of(lambda own, images: own.conv(images) if own.training else images), "differ from"),
        (_of(lambda own, images: own.conv(images) / 0), "unknown operation 'div'"),
    ],
)
def test_what_a_network_cannot_express_is_named(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(module, images_of())
