"""Shapes, parameters and operations of dense layers."""

from __future__ import annotations

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import CAFFE_BIAS, Dense, Flatten, Initial, Shape
from vectorized_ops.shapes import CopyShape, DenseShape


@pytest.mark.parametrize("input_shape", [(4, 4, 50), (800,)])
def test_map_and_vector_of_the_same_size_cost_the_same(input_shape: Shape) -> None:
    layer = Dense("d", 10)
    assert layer.output_shape((input_shape,)) == (10,)
    assert layer.operation(3, (input_shape,)) == DenseShape(3, 800, 10)
    assert [(spec.name, spec.shape) for spec in layer.parameters((input_shape,))] == [
        ("d.weights", (10, 800)),
        ("d.bias", (10,)),
    ]


def test_choices_for_training_reach_the_parameters() -> None:
    layer = Dense(
        "d",
        4,
        initialiser="gaussian:0.5",
        bias_value=0.1,
        weights_multipliers=CAFFE_BIAS,
    )
    weights, bias = layer.parameters(((5,),))
    assert (weights.initial, bias.initial) == (Initial("normal", 0.5), Initial("constant", 0.1))
    assert (weights.learning_rate_multiplier, bias.learning_rate_multiplier) == (2, 1)


def test_bias_can_be_left_out() -> None:
    assert [spec.role for spec in Dense("d", 4, bias=False).parameters(((5,),))] == ["weights"]


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(NetworkError, match="layer 'd': units = 0, expected at least 1"):
        Dense("d", 0)
    with pytest.raises(NetworkError, match="layer 'd': unknown initialiser ''"):
        Dense("d", 1, initialiser="")


def test_flattened_map_has_all_its_values() -> None:
    assert Flatten("f").output_shape(((4, 5, 3),)) == (60,)
    assert Flatten("f").operation(2, ((4, 5, 3),)) == CopyShape((2, 4, 5, 3))
