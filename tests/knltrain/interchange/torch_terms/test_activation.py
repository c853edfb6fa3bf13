from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.network.layers import Activation, Affine, Dropout, Layer, PReLU, ReLU, StochasticDepth

from ..importing import Forward, images_of, imported_of


@pytest.mark.parametrize(
    ("module", "layer"),
    [
        (nn.ReLU(), ReLU("1", inputs=("0",))),
        (nn.ReLU(inplace=True), ReLU("1", inputs=("0",))),
        (nn.LeakyReLU(0.2), ReLU("1", slope=0.2, inputs=("0",))),
        (nn.ReLU6(), ReLU("1", ceiling=6, inputs=("0",))),
        (nn.Hardtanh(0, 3), ReLU("1", ceiling=3, inputs=("0",))),
        (nn.GELU(), Activation("1", "gelu", inputs=("0",))),
        (nn.GELU(approximate="tanh"), Activation("1", "gelu_tanh", inputs=("0",))),
        (nn.Hardsigmoid(), Activation("1", "hard_sigmoid", inputs=("0",))),
        (nn.Hardswish(inplace=True), Activation("1", "hard_swish", inputs=("0",))),
        (nn.Sigmoid(), Activation("1", "sigmoid", inputs=("0",))),
        (nn.SiLU(inplace=True), Activation("1", "silu", inputs=("0",))),
        (nn.Tanh(), Activation("1", "tanh", inputs=("0",))),
        (nn.PReLU(2), PReLU("1", inputs=("0",))),
        (nn.PReLU(), PReLU("1", shared=True, inputs=("0",))),
        (nn.Dropout(0.25), Dropout("1", 0.25, inputs=("0",))),
    ],
)
def test_elementwise_layers_are_read(module: nn.Module, layer: Layer) -> None:
    whole = nn.Sequential(nn.Conv2d(2, 2, 1), module)
    assert imported_of(whole, images_of()).network.layers[1] == layer


@pytest.mark.parametrize(
    "module", [nn.Identity(), nn.Dropout(0.0), Forward(lambda _, maps: F.dropout(maps, 0.5, False))]
)
def test_what_changes_nothing_is_no_layer(module: nn.Module) -> None:
    whole = nn.Sequential(nn.Conv2d(2, 2, 1), module)
    assert len(imported_of(whole, images_of()).network.layers) == 1


def test_functions_are_read_like_modules() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        return F.relu6(F.leaky_relu(torch.relu(own.conv(images)), 0.5))

    layers = imported_of(Forward(work, conv=nn.Conv2d(2, 2, 1)), images_of()).network.layers[1:]
    assert layers == (
        ReLU("relu", inputs=("conv",)),
        ReLU("leaky_relu", slope=0.5, inputs=("relu",)),
        ReLU("relu6", ceiling=6, inputs=("leaky_relu",)),
    )
    assert math.isinf(layers[1].ceiling)


class _Dropping(nn.Module):
    """What modules of stochastic depth do."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        for key, value in settings.items():
            setattr(self, key, value)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return maps
        kept = maps.new_empty((maps.shape[0], 1, 1, 1))
        return maps * kept.bernoulli_(0.75).div_(0.75)


def _dropping(place: str, **settings: Any) -> nn.Module:
    module, _, name = place.rpartition(".")
    kind = type(name, (_Dropping,), {"__module__": module})
    return nn.Sequential(nn.Conv2d(2, 2, 1), kind(**settings))


_OF_TORCHVISION = "torchvision.ops.stochastic_depth.StochasticDepth"
_OF_TIMM = "timm.layers.drop.DropPath"


@pytest.mark.parametrize(
    ("place", "settings"),
    [
        (_OF_TORCHVISION, {"p": 0.25, "mode": "row"}),
        (_OF_TIMM, {"drop_prob": 0.25, "scale_by_keep": True}),
    ],
)
def test_stochastic_depth_of_other_libraries_is_read(place: str, settings: Any) -> None:
    network = imported_of(_dropping(place, **settings), images_of()).network
    assert network.layers[1:] == (StochasticDepth("1", 0.25, inputs=("0",)),)


@pytest.mark.parametrize(
    ("place", "settings", "message"),
    [
        (_OF_TORCHVISION, {"p": 0.25, "mode": "batch"}, "expected mode 'row'"),
        (_OF_TORCHVISION, {"p": 1.0, "mode": "row"}, "layer '1': rate = 1.0, expected 0 <= rate"),
        (_OF_TIMM, {"drop_prob": 0.25, "scale_by_keep": False}, "values that are scaled up"),
        ("mine.DropPath", {"drop_prob": 0.25}, "unknown operation 'new_empty'"),
    ],
)
def test_stochastic_depth_of_another_kind_is_named(place: str, settings: Any, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(_dropping(place, **settings), images_of())


def test_stochastic_depth_with_a_forward_of_its_own_is_refused() -> None:
    module: Any = _dropping(_OF_TORCHVISION, p=0.25, mode="row")
    kept = module[1].forward
    module[1].forward = lambda maps: kept(maps) if module[1].training else maps
    with pytest.raises(NetworkError, match=r"module '1' \(StochasticDepth\) has a forward of its"):
        from_torch(module, images_of())


def test_another_lower_bound_is_named() -> None:
    with pytest.raises(NetworkError, match=r"Hardtanh.*min_val = -1, only 0 is supported"):
        from_torch(nn.Sequential(nn.Hardtanh(-1, 1)), images_of())


@pytest.mark.parametrize(
    ("work", "layer"),
    [
        (lambda maps: maps * 0.5, Affine("1.mul", 0.5)),
        (lambda maps: 3 * maps, Affine("1.mul", 3.0)),
        (lambda maps: maps / 4, Affine("1.div", 0.25)),
        (lambda maps: maps + 1, Affine("1.add", 1.0, 1.0)),
        (lambda maps: maps - 2, Affine("1.sub", 1.0, -2.0)),
        (lambda maps: 1 - maps, Affine("1.rsub", -1.0, 1.0)),
        (lambda maps: -maps, Affine("1.neg", -1.0)),
        (lambda maps: maps + maps, Affine("1.add", 2.0)),
    ],
)
def test_arithmetic_with_numbers_is_affine(work: Any, layer: Affine) -> None:
    whole = nn.Sequential(nn.Conv2d(2, 2, 1), Forward(lambda _, maps: work(maps)))
    found = imported_of(whole, images_of()).network.layers[1]
    assert found == replace(layer, inputs=("0",))


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda maps: maps / maps, "a quotient of layers' outputs"),
        (lambda maps: 1 - maps - torch.relu(maps), "a difference of layers' outputs"),
        (lambda maps: torch.div(maps, 2, rounding_mode="floor"), "rounding_mode = 'floor'"),
    ],
)
def test_other_arithmetic_is_named(work: Any, message: str) -> None:
    whole = nn.Sequential(nn.Conv2d(2, 2, 1), Forward(lambda _, maps: work(maps)))
    with pytest.raises(NetworkError, match=message):
        from_torch(whole, images_of())
