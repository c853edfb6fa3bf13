from __future__ import annotations

import numpy as np
import pytest

from knltrain.distributed_ops import (
    BatchNormalisation,
    Convolution,
    Dense,
    Options,
    ReLU,
    SingleProcessReducer,
)
from knltrain.distributed_ops.layer import Layer
from knltrain.errors import NetworkError
from vectorized_ops.shapes import ConvolutionShape
from vectorized_ops.shapes.execution import executed


def test_error_says_what_was_given_and_where_to_begin() -> None:
    layer = ReLU("relu7", (2, 3), Options("reference"))
    with pytest.raises(NetworkError) as caught:
        layer.forward(np.zeros((2, 4), np.float32))
    text = str(caught.value)
    assert "layer 'relu7' was given values of shape (2, 4) and type float32" in text
    assert "expected (2, 3), float32" in text
    assert "Images.load" in text


def test_times_of_all_directions_are_there_and_can_be_forgotten() -> None:
    layer = ReLU("relu", (2, 3), Options("reference"))
    assert list(layer.times) == ["forward", "backward_data", "backward_weights", "update"]
    layer.forward(np.zeros((2, 3), np.float32))
    assert layer.times["forward"].calls == 1
    layer.clear_times()
    assert layer.times["forward"].calls == 0
    assert layer.times["forward"].compute_seconds == 0


SHAPE = ConvolutionShape(20, 12, 12, 16, 32, (3, 3), padding=(1, 1))


def layers(options: Options) -> list[Layer]:
    alone = SingleProcessReducer()
    return [
        Convolution("conv", SHAPE, alone, options),
        BatchNormalisation("bn", (20, 12, 12, 32), alone, options),
        ReLU("relu", (20, 12, 12, 32), options),
        Dense("fc", 20, 64, 10, alone, options),
    ]


def test_images_are_padded_and_algorithms_are_counted_where_they_are_executed() -> None:
    conv, norm, relu, dense = layers(Options("numba"))
    for direction in ("forward", "backward_data", "backward_weights"):
        chosen = conv._operation.choices[direction].name
        expected = executed(SHAPE, direction, chosen)
        found = conv.cost(direction)
        assert (found.executed_flops, found.layout_bytes) == (
            expected.executed_flops,
            expected.layout_bytes,
        )
        assert found.flops == SHAPE.costs[direction].flops
    for layer in (norm, relu, dense):
        cost = layer.cost("forward")
        assert cost.executed_flops * 20 == pytest.approx(cost.flops * 32)  # 20 images in 32 lanes
    assert norm.cost("forward").executed_flops > norm.cost("backward_data").executed_flops == 0
    assert conv.cost("update").executed_flops == conv.cost("update").flops


def test_layers_of_others_execute_what_the_definition_says() -> None:
    for layer in layers(Options("reference")):
        for direction in layer.times:
            cost = layer.cost(direction)
            assert (cost.executed_flops, cost.layout_bytes) == (cost.flops, cost.memory_bytes)


def test_channels_last_pads_products_alone() -> None:
    _, norm, _, dense = layers(Options("channels_last"))
    cost = norm.cost("forward")
    assert cost.executed_flops == cost.flops
    assert dense.cost("forward").executed_flops > dense.cost("forward").flops
