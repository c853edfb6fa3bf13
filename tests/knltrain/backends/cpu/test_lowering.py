"""What is fused into one stage, what works in place, and what branches write into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from seam.graphs import (
    ALEXNET,
    CLASSES,
    DROPOUT,
    GRAPHS,
    INCEPTION,
    LENET,
    NORMALISED_LATE,
    RESIDUAL,
    convolution,
    headed,
    normalised,
    rectified,
)

from knltrain.backends.cpu.lowering import Lowering
from knltrain.backends.cpu.stages import BatchNormalisationStage, CopyStage, WeightedStage
from knltrain.errors import NetworkError
from knltrain.network.graph import Output
from knltrain.network.layers import (
    IMAGES,
    Activation,
    Addition,
    BatchNormalisation,
    Concatenation,
    Convolution,
    Dense,
    Dropout,
    Layer,
    LocalResponseNormalisation,
    MaxPooling,
    ReLU,
    Shape,
)
from knltrain.network.network import Network
from vectorized_ops.implementations import operations
from vectorized_ops.shapes import CopyShape

DENSE = next(each for each in GRAPHS if each.name.startswith("dense blocks in which"))


def lowered(network: Network, implementation: str = "reference") -> Lowering:
    return Lowering(network, 16, operations(implementation, winograd=False))


def stages(network: Network, implementation: str = "reference") -> list[str]:
    """Name and kind of each stage."""
    return [
        f"{stage.name}: {type(stage).__name__.removesuffix('Stage')}"
        for stage in lowered(network, implementation).stages
    ]


@pytest.mark.parametrize("implementation", ["reference", "numba"])
def test_normalisations_take_over_the_additions_and_relus_behind_them(implementation: str) -> None:
    assert stages(RESIDUAL, implementation) == [
        "stem/conv: Weighted",
        "stem: BatchNormalisation",
        "a1/conv: Weighted",
        "a1: BatchNormalisation",
        "a2/conv: Weighted",
        "a2: BatchNormalisation",  # with the addition of the block's inputs, and the ReLU
        "b1/conv: Weighted",
        "b1: BatchNormalisation",
        "b2/conv: Weighted",
        "b2: BatchNormalisation",  # alone: the other addend is not there yet
        "short/conv: Weighted",
        "short: BatchNormalisation",  # with the addition of b2, and the ReLU
        "means: AveragePooling",
        "out: Weighted",
    ]


@pytest.mark.parametrize("implementation", ["reference", "numba", "onednn", "channels_last"])
@pytest.mark.parametrize(
    "activation", [ReLU("act", ceiling=6.0), ReLU("act", 0.1), Activation("act", "silu")]
)
def test_normalisations_take_over_any_activation_behind_them(
    activation: Layer, implementation: str
) -> None:
    layers = Convolution("conv", 4, 3), BatchNormalisation("norm"), activation, Dense("out", 2)
    network = Network("normalised", (8, 8, 2), layers)
    assert stages(network, implementation) == [
        "conv: Weighted", "norm: BatchNormalisation", "out: Flatten", "out: Weighted",
    ]  # fmt: skip


@pytest.mark.parametrize(("implementation", "gathers"), [("reference", False), ("numba", True)])
def test_convolutions_gather_the_statistics_of_the_normalisations_behind_them(
    implementation: str, gathers: bool
) -> None:
    found = {
        stage.name: stage.gathers
        for stage in lowered(RESIDUAL, implementation).stages
        if isinstance(stage, WeightedStage)
    }
    assert found.pop("out") is False
    assert len(found) == 6
    assert set(found.values()) == {gathers}


def test_statistics_behind_a_relu_or_for_two_normalisations_are_not_gathered() -> None:
    found = lowered(NORMALISED_LATE, "numba").stages
    weighted = [stage for stage in found if isinstance(stage, WeightedStage)]
    assert [stage.name for stage in weighted] == ["early/conv", "shared/conv", "out"]
    assert not any(stage.gathers for stage in weighted)


def test_concatenations_contain_those_they_begin_like_and_nothing_is_copied() -> None:
    made = lowered(DENSE)
    assert not any(isinstance(stage, CopyStage) for stage in made.stages)
    whole = made.tensors["x3"]
    for name, parent in (("x2", "x3"), ("x1", "x2"), ("a", "x1"), ("d/conv", "x3")):
        assert made.tensors[name].parent is made.tensors[parent]
        assert made.tensors[name].values.buffer is whole.values.buffer
    assert whole.fixed  # others read its parts


def test_normalisations_of_a_concatenation_take_the_statistics_of_its_parts() -> None:
    found = {
        stage.name: [(each.tensor.name, each.source and each.source.name) for each in stage.pieces]
        for stage in lowered(DENSE, "numba").stages
        if isinstance(stage, BatchNormalisationStage)
    }
    assert found["c"] == [("a", None), ("b", None)]
    assert found["d"] == [("x1", "c"), ("c/conv", None)]  # a ReLU ends c/conv
    assert found["e"] == [("x3/relu", None)]


def test_branch_with_a_taker_behind_the_concatenation_is_copied() -> None:
    layers = (
        *rectified("a"),
        *rectified("b"),
        Concatenation("joined", ("a", "b")),
        convolution("c"),
        Addition("sum", ("c", "a")),
    )
    made = lowered(headed("late", *layers))
    copied = [stage.inputs.name for stage in made.stages if isinstance(stage, CopyStage)]
    assert copied == ["a"]


def test_branches_write_straight_into_the_concatenation() -> None:
    made = lowered(INCEPTION)
    assert [f"{stage.name} {type(stage).__name__}" for stage in made.stages][1:-3] == [
        "left/conv WeightedStage",
        "middle/first/conv WeightedStage",
        "middle/conv WeightedStage",
        "right/pool MaxPoolingStage",
        "right/conv WeightedStage",
    ]
    whole = made.tensors["joined"]
    for name in ("left", "middle", "right"):
        assert made.tensors[name].values.buffer is whole.values.buffer
        assert made.tensors[name].parent is whole
    assert made.tensors["middle/first"].values.buffer is not whole.values.buffer
    assert whole.rectified


def test_alexnet_s_layers_follow_each_other_with_relus_taken_over() -> None:
    assert stages(ALEXNET) == [
        "conv1: Weighted",
        "norm1: LocalResponseNormalisation",
        "pool1: MaxPooling",
        "conv2: Weighted",
        "pool2: MaxPooling",
        "hidden: Flatten",
        "hidden: Weighted",
        "drop: Dropout",
        "out: Weighted",
    ]
    made = lowered(ALEXNET)
    assert made.tensors["drop"].values is made.tensors["relu3"].values  # in place


def test_lenet_of_numba_pools_while_it_convolves() -> None:
    dense = ["ip1: Flatten", "ip1: Weighted", "ip2: Weighted"]
    assert stages(LENET, "numba") == [
        "conv1: PooledConvolution",
        "conv2: PooledConvolution",
        *dense,
    ]
    for other in ("reference", "onednn"):
        assert stages(LENET, other) == [
            "conv1: Weighted",
            "pool1: MaxPooling",
            "conv2: Weighted",
            "pool2: MaxPooling",
            *dense,
        ]


@pytest.mark.parametrize(
    ("convolution", "pooling", "fused"),
    [
        ({}, {}, True),
        ({"stride": 2}, {}, False),
        ({"padding": 1}, {}, False),
        ({"dilation": 2}, {}, False),
        ({"groups": 2}, {}, False),
        ({"bias": False}, {}, False),
        ({"kernel": (3, 2)}, {}, False),
        ({}, {"kernel": 3}, False),
        ({}, {"stride": 1}, False),
        ({}, {"padding": 1}, False),
        ({}, {"ceil": True}, False),
    ],
)
def test_only_a_plain_convolution_and_2x2_pooling_are_fused(
    convolution: dict[str, Any], pooling: dict[str, Any], fused: bool
) -> None:
    layers = (
        Convolution("conv", 4, **{"kernel": 3, **convolution}),
        MaxPooling("pool", **{"kernel": 2, "stride": 2, **pooling}),
        Dense("out", 2),
    )
    found = stages(Network("small", (12, 12, 2), layers), "numba")
    assert (found[0] == "conv: PooledConvolution") is fused
    assert len(found) == (3 if fused else 4)


def test_pooling_is_not_fused_where_the_inputs_have_other_takers_or_a_relu() -> None:
    pooled = Convolution("conv", 4, 3), MaxPooling("pool", 2, 2)
    rectified = Network(
        "rectified", (8, 8, 2), (Convolution("first", 4, 3), ReLU("relu"), *pooled, Dense("out", 2))
    )
    assert "conv: Weighted" in stages(rectified, "numba")
    layers = (
        Convolution("first", 4, 3),
        *pooled,
        Dense("out", 2),
        Dense("other", 2, inputs=("first",)),
    )
    taken = Network("taken", (8, 8, 2), layers, (Output("out"), Output("other")))
    assert "conv: Weighted" in stages(taken, "numba")


def test_relu_that_others_look_behind_is_a_stage_of_its_own() -> None:
    network = headed(
        "open", Convolution("conv", 8, 1), ReLU("relu"), Addition("sum", ("conv", "relu"))
    )
    made = lowered(network)
    assert type(made.stages[1]).__name__ == "RectifierStage"
    assert made.tensors["relu"].values is not made.tensors["conv"].values


def test_relu_that_is_taken_over_by_nobody_works_in_place() -> None:
    network = headed("pooled", Convolution("conv", 8, 1), MaxPooling("pool", 2, 2), ReLU("relu"))
    made = lowered(network)
    assert type(made.stages[2]).__name__ == "ReLUStage"
    assert made.tensors["relu"].values is made.tensors["pool"].values
    assert made.tensors["relu"].gradient is made.tensors["pool"].gradient


def test_relu_behind_an_output_of_the_network_leaves_it_alone() -> None:
    layers = Dense("logits", 3), ReLU("relu"), Dense("out", 3)
    network = Network("two", (2, 2, 8), layers, (Output("out"), Output("logits")))
    made = lowered(network)
    assert not made.tensors["logits"].rectified
    assert made.tensors["relu"].values is not made.tensors["logits"].values


def test_dropout_overwrites_no_values_from_which_a_slope_is_told() -> None:
    made = lowered(DROPOUT)

    def values_of(name: str) -> Any:
        return made.tensors[name].values.buffer

    assert values_of("a") is values_of("stem")
    assert values_of("clipped/drop") is not values_of("clipped")
    assert values_of("right/drop") is values_of("right")
    assert values_of("joined/drop") is not values_of("joined")  # a branch of which is clipped


def test_layers_in_place_at_the_end_of_a_branch_move_into_the_concatenation() -> None:
    made = lowered(DROPOUT)
    whole = made.tensors["joined"]
    for name in ("third/pool", "third/relu", "third"):
        tensor = made.tensors[name]
        assert tensor.values.buffer is whole.values.buffer
        assert tensor.gradient is not None and whole.gradient is not None
        assert tensor.gradient.buffer is whole.gradient.buffer


def test_images_are_copied_into_a_concatenation() -> None:
    network = headed(
        "shared",
        Convolution("a", 8, 1),
        Convolution("b", 8, 1),
        Concatenation("joined", ("b", IMAGES)),
    )
    made = lowered(network)
    (copy,) = [stage for stage in made.stages if type(stage).__name__ == "CopyStage"]
    assert copy.inputs is made.tensors[IMAGES]
    assert copy.output.values.buffer is made.tensors["joined"].values.buffer
    assert not made.tensors["joined"].rectified


def test_nested_concatenations_lie_in_the_outermost() -> None:
    network = headed(
        "nested",
        Convolution("a", 8, 1),
        Convolution("b", 8, 1, inputs=("a",)),
        Convolution("c", 8, 1, inputs=("a",)),
        Concatenation("inner", ("b", "c")),
        Convolution("d", 8, 1, inputs=("a",)),
        Concatenation("outer", ("d", "inner")),
    )
    made = lowered(network)
    outer = made.tensors["outer"]
    for name in ("b", "c", "d", "inner"):
        assert made.tensors[name].values.buffer is outer.values.buffer
    assert not any(type(stage).__name__ == "CopyStage" for stage in made.stages)


def test_normalisation_s_inputs_get_their_gradient_where_that_of_the_outputs_was() -> None:
    made = lowered(headed("normalised", *normalised("norm")))
    inputs, output = made.tensors["norm/conv"], made.tensors["norm"]
    assert inputs.gradient is not None and output.gradient is not None
    assert inputs.gradient.buffer is output.gradient.buffer


def test_normalised_images_are_added_to_in_a_stage_of_its_own() -> None:
    network = headed(
        "images",
        Convolution("conv", 8, 1),
        BatchNormalisation("norm", inputs=(IMAGES,)),
        Addition("sum", ("norm", "conv")),
    )
    assert "sum: Addition" in stages(network)


def test_images_and_what_is_made_of_them_without_parameters_have_no_gradient() -> None:
    layers = MaxPooling("pool", 2, 2), Convolution("conv", 8, 1), Dense("out", CLASSES)
    made = lowered(Network("pooled", (4, 4, 8), layers))
    assert made.tensors[IMAGES].gradient is None
    assert made.tensors["pool"].gradient is None
    assert made.tensors["conv"].gradient is not None


@pytest.mark.parametrize("layer", [Dropout("new", 0.5), LocalResponseNormalisation("new")])
def test_layer_that_an_implementation_lacks_is_refused_with_the_way_out(layer: Layer) -> None:
    kind = type(layer).__name__
    with pytest.raises(
        NetworkError, match=rf"'new' is a {kind}, .* 'onednn' does .*backend\.name = .torch."
    ):
        lowered(headed("lacking", layer), "onednn")


@dataclass(frozen=True, slots=True)
class Shuffle(Layer):
    name: str
    inputs: tuple[str, ...] = ()

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        return input_shapes[0]

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> CopyShape:
        return CopyShape((images, *input_shapes[0]))


@pytest.mark.parametrize("implementation", ["reference", "numba", "onednn", "channels_last"])
def test_unknown_layer_is_refused_with_the_way_out(implementation: str) -> None:
    with pytest.raises(NetworkError, match=r"layer 'new' is a Shuffle.*backend\.name = .torch."):
        lowered(headed("unknown", Shuffle("new")), implementation)
