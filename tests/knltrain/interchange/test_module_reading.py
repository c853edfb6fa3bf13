"""Operations become layers with names, or are named with their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.network.network import Network

from .importing import Forward, images_of, imported_of


def test_modules_called_twice_are_two_layers() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.lrn(own.relu(own.first(images)))
        return own.lrn(own.relu(own.second(maps)))

    children = {"first": nn.Conv2d(2, 2, 1), "second": nn.Conv2d(2, 2, 1)}
    module = Forward(work, **children, relu=nn.ReLU(), lrn=nn.LocalResponseNorm(3))
    names = [layer.name for layer in imported_of(module, images_of()).network.layers]
    assert names == ["first", "relu", "lrn", "second", "relu_1", "lrn_1"]


def _of(work: Callable[[Any, torch.Tensor], Any]) -> nn.Module:
    return Forward(work, conv=nn.Conv2d(2, 2, 1), norm=nn.BatchNorm2d(2))


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


def test_conversions_to_what_a_value_is_have_no_effect() -> None:
    module = _of(lambda own, images: own.conv(images.float()).to(torch.float32).type_as(images))
    assert [layer.name for layer in _network(module).layers] == ["conv"]


def _network(module: nn.Module) -> Network:
    return from_torch(module, images_of()).network


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (_of(lambda own, images: own.conv(images).view(-1, 4, 8, 8)), "has no graph|view to"),
        (_of(lambda own, images: own.conv(images).mean()), "a mean over axes None"),
        (
            _of(lambda own, images: own.conv(images) + images.shape[0]),
            "beside a layer's output, expected",
        ),
        (
            _of(lambda own, images: own.conv(images) + own.conv.bias.view(2, 1, 1)),
            "a sum with a parameter, expected another",
        ),
        (nn.Sequential(nn.Conv2d(2, 2, 1), nn.Dropout(1.0)), "module '1' .Dropout.: .*rate = 1"),
        (nn.Sequential(nn.Softmax(1)), r"module '0' \(Softmax\): unknown operation 'softmax'"),
        (nn.Sequential(nn.Flatten(2)), r"'0' \(Flatten\): flatten to .*expected a flatten of maps"),
        (nn.Sequential(nn.ReLU(), nn.Flatten()), "output 'flatten' of Sequential has the shape"),
        (nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1)), "the shape .N, 2, 1, 1.: expected"),
        (nn.Linear(8, 3), "linear of feature maps, expected flattened maps or vectors"),
        (
            _of(lambda own, images: torch.erf(own.conv(images))),
            "importing.py:.*self.work.*unknown operation 'erf'",
        ),
        (
            _of(lambda own, images: own.conv(images) * torch.rand(images.shape[0], 1, 1, 1)),
            "rand makes values of its own: .* random ones in torch.nn.Dropout",
        ),
        (
            _of(lambda own, images: (own.conv(images), images)),
            "2 outputs in .*loss.auxiliary_weights",
        ),
        (_of(lambda own, images: own.conv(images) if own.training else images), "differ from"),
        (_of(lambda own, images: own.conv(images) / 0), "outputs or by 0, expected a n"),
    ],
)
def test_what_a_network_cannot_express_is_named(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(module, images_of())
