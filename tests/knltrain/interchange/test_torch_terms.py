from __future__ import annotations

import math

import pytest
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.torch_terms import TorchTerms, terms_of
from knltrain.network.layers import (
    Addition,
    AveragePooling,
    Concatenation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
    ReLU,
    Shape,
)
from vectorized_ops.shapes import CopyShape


@pytest.mark.parametrize(
    ("layer", "join", "modules"),
    [
        (Convolution("c", 8, 3), None, ["Conv2d"]),
        (Dense("d", 5), None, ["Flatten", "Linear"]),
        (MaxPooling("m", 2, 2), None, ["MaxPool2d"]),
        (AveragePooling("m", 2, 2), None, ["AvgPool2d"]),
        (GlobalAveragePooling("g"), None, ["AdaptiveAvgPool2d", "Flatten"]),
        (ReLU("r"), None, ["ReLU"]),
        (ReLU("r", slope=0.1), None, ["LeakyReLU"]),
        (ReLU("r", ceiling=6.0), None, ["Hardtanh"]),
        (ReLU("r", slope=0.1, ceiling=6.0), None, ["LeakyReLU", "Hardtanh"]),
        (Concatenation("j", ("a", "b")), "cat", []),
        (Addition("s", ("a", "b")), "add", []),
    ],
    ids=repr,
)
def test_layers_are_modules_of_pytorch_or_joins(
    layer: Layer, join: str | None, modules: list[str]
) -> None:
    found = terms_of(layer, (8, 8, 4))
    assert isinstance(found, TorchTerms)
    assert (found.join, [each.name for each in found.modules]) == (join, modules)
    for each in found.modules:
        getattr(nn, each.name)(**each.arguments)


def test_vectors_are_not_flattened() -> None:
    (linear,) = terms_of(Dense("d", 5, bias=False), (12,)).modules
    assert linear.arguments == {"in_features": 12, "out_features": 5, "bias": False}


def test_a_bent_rectifier_is_cut_at_its_ceiling_alone() -> None:
    _, cut = terms_of(ReLU("r", slope=0.1, ceiling=6.0), (4,)).modules
    assert cut.arguments == {"min_val": -math.inf, "max_val": 6.0}


class Unknown(Layer):
    name = "new"
    inputs = ()

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        return input_shapes[0]

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> CopyShape:
        return CopyShape((images, *input_shapes[0]))


def test_layer_without_a_module_is_refused() -> None:
    with pytest.raises(NetworkError, match="layer 'new': Unknown has no PyTorch module"):
        terms_of(Unknown(), (4, 4, 1))
