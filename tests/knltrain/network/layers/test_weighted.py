"""Shapes, parameters and operations of convolutions."""

from __future__ import annotations

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import CAFFE_BIAS, Convolution, Dense, Flatten, Initial, Shape
from vectorized_ops.shapes import CopyShape, DenseShape


@pytest.mark.parametrize(
    ("layer", "input_shape", "output_shape"),
    [
        (Convolution("c", 20, 5), (28, 28, 1), (24, 24, 20)),
        (Convolution("c", 8, 3, stride=2, padding=1), (9, 12, 4), (5, 6, 8)),
        (Convolution("c", 8, 7), (7, 8, 4), (1, 2, 8)),
        (Convolution("c", 8, (1, 3), stride=(2, 1), padding=(0, 1)), (9, 12, 4), (5, 12, 8)),
        (Convolution("c", 8, 3, dilation=2), (9, 12, 4), (5, 8, 8)),
        (Convolution("c", 2, 7, padding=1), (5, 5, 1), (1, 1, 2)),
        (Convolution("c", 8, 1, padding=3), (1, 2, 4), (7, 8, 8)),
    ],
)
def test_output_shape(layer: Convolution, input_shape: Shape, output_shape: Shape) -> None:
    assert layer.output_shape((input_shape,)) == output_shape


def test_parameters_are_weights_before_bias() -> None:
    specs = Convolution("c", 20, (5, 3)).parameters(((28, 28, 3),))
    assert [(spec.name, spec.shape) for spec in specs] == [
        ("c.weights", (20, 3, 5, 3)),
        ("c.bias", (20,)),
    ]


def test_each_group_has_weights_for_its_own_channels() -> None:
    (weights,) = Convolution("c", 6, 3, groups=2, bias=False).parameters(((9, 9, 4),))
    assert weights.shape == (6, 2, 3, 3)


@pytest.mark.parametrize(
    ("layer", "input_shape", "flops"),
    [
        (Convolution("c", 50, 5), (12, 12, 20), 2 * 8 * 8 * 50 * 20 * 25),
        (Convolution("c", 8, 3, stride=2, padding=1), (9, 12, 4), 2 * 5 * 6 * 8 * 4 * 9),
        (Convolution("c", 8, (1, 3), groups=4), (9, 12, 4), 2 * 9 * 10 * 8 * 1 * 3),
    ],
)
def test_flops_count_a_multiply_add_as_two(
    layer: Convolution, input_shape: Shape, flops: int
) -> None:
    assert layer.operation(3, (input_shape,)).flops == 3 * flops
    assert layer.operation(3, (input_shape,)).outputs == (3, *layer.output_shape((input_shape,)))


def test_choices_for_training_reach_the_parameters_of_convolutions() -> None:
    layer = Convolution(
        "c", 4, 3, initialiser="gaussian:0.5", bias_value=0.1, bias_multipliers=CAFFE_BIAS
    )
    weights, bias = layer.parameters(((5, 5, 2),))
    assert (weights.initial, bias.initial) == (Initial("normal", 0.5), Initial("constant", 0.1))
    assert (weights.learning_rate_multiplier, bias.learning_rate_multiplier) == (1, 2)


def test_square_pair_and_single_number_are_the_same() -> None:
    pairs = Convolution("c", 4, (3, 3), (2, 2), (1, 1), (1, 1))
    assert pairs == Convolution("c", 4, 3, 2, 1)
    assert pairs.kernel == 3
    assert (pairs.window.kernel, pairs.window.stride, pairs.window.padding) == (
        (3, 3),
        (2, 2),
        (1, 1),
    )


@pytest.mark.parametrize(("filters", "channels"), [(5, 4), (4, 5)])
def test_groups_that_do_not_divide_the_channels_are_refused(filters: int, channels: int) -> None:
    layer = Convolution("c", filters, 3, groups=2)
    with pytest.raises(
        NetworkError, match=f"'c': groups = 2, .* {channels} input channels .* {filters} f"
    ):
        layer.output_shape(((9, 9, channels),))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Convolution("c", 0, 5), "layer 'c': filters = 0, expected at least 1"),
        (lambda: Convolution("c", 1, 5, groups=0), "layer 'c': groups = 0"),
        (lambda: Convolution("c", 1, 5, stride=0), "layer 'c': stride = 0"),
        (
            lambda: Convolution("c", 1, 5, padding=-1),
            "layer 'c': padding = -1, expected at least 0",
        ),
        (lambda: Convolution("c", 1, 5, initialiser="he"), "layer 'c': unknown initialiser 'he'"),
    ],
)
def test_choice_out_of_range_names_layer_and_choice(build: object, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        build()  # type: ignore[operator]


@pytest.mark.parametrize("input_shape", [(4, 4, 50), (800,)])
def test_map_and_vector_of_the_same_size_cost_the_same(input_shape: Shape) -> None:
    layer = Dense("d", 10)
    assert layer.output_shape((input_shape,)) == (10,)
    assert layer.operation(3, (input_shape,)) == DenseShape(3, 800, 10)
    assert [(spec.name, spec.shape) for spec in layer.parameters((input_shape,))] == [
        ("d.weights", (10, 800)),
        ("d.bias", (10,)),
    ]


def test_choices_for_training_reach_the_parameters_of_dense_layers() -> None:
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
