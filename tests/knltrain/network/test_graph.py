"""Layers take what stands before them, outputs are what the layers lead to."""

from __future__ import annotations

import pytest

from knltrain.errors import NetworkError
from knltrain.network.graph import (
    Output,
    ancestors,
    behind_parameters,
    check_names,
    checked_outputs,
    resolved_inputs,
)
from knltrain.network.layers import Addition, Layer, ParameterSpec, ReLU, Shape

DIAMOND: dict[str, tuple[str, ...]] = {
    "a": ("images",),
    "left": ("a",),
    "right": ("a",),
    "sum": ("left", "right"),
    "side": ("right",),
}
SHAPES: dict[str, Shape] = dict.fromkeys(DIAMOND, (4,))


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((), "network 'bad' has no layers"),
        ((ReLU("a"), ReLU("a")), "2 layers of network 'bad' are named 'a'"),
        ((ReLU("a..b"),), r"layer name 'a\.\.b' in network 'bad': expected letters"),
        ((ReLU("a."),), r"layer name 'a\.' in network 'bad': expected letters"),
        ((ReLU(""),), "layer name '' in network 'bad'"),
        ((ReLU("images"),), "a layer of network 'bad' is named 'images', which stands for"),
    ],
)
def test_names_that_cannot_be_are_refused(layers: tuple[Layer, ...], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        check_names("bad", layers)


def test_layer_without_inputs_takes_the_one_before() -> None:
    layers = (
        ReLU("a"),
        ReLU("b"),
        ReLU("c", inputs=("a",)),
        ReLU("d"),
        Addition("e", ("images", "b")),
    )
    assert resolved_inputs("net", layers) == {
        "a": ("images",),
        "b": ("a",),
        "c": ("a",),
        "d": ("c",),
        "e": ("images", "b"),
    }


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            (ReLU("relu1"), ReLU("b", inputs=("relu",))),
            "unknown input of layer 'b' of network 'bad' 'relu': expected one of 'images', "
            "'relu1'; did you mean 'relu1'",
        ),
        ((ReLU("a", inputs=("b",)), ReLU("b")), "layer 'a' .* takes 'b', which does not stand bef"),
        ((ReLU("a", inputs=("a",)),), "takes 'a', which does not stand before"),
        ((ReLU("a"), Addition("b", ("a", "a"))), "layer 'b' .* takes an input twice"),
    ],
)
def test_inputs_that_cannot_be_are_refused(layers: tuple[Layer, ...], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        resolved_inputs("bad", layers)


def test_last_layer_is_the_output_unless_others_are_named() -> None:
    chain = {"a": ("images",), "b": ("a",)}
    assert checked_outputs("net", (), chain, SHAPES | {"b": (4,)}) == (Output("b", 1.0),)
    given = (Output("sum"), Output("side", 0.3))
    assert checked_outputs("net", given, DIAMOND, SHAPES) == given


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ((Output("sun"),), "unknown output of network 'bad' 'sun': .* did you mean 'sum'"),
        ((Output("sum", 0.0),), "output 'sum' of network 'bad': weight = 0.0, expected above 0"),
        ((Output("sum", float("nan")),), "weight = nan"),
        ((Output("sum"), Output("side"), Output("sum")), "expected different layers"),
        ((Output("sum"), Output("wide")), r"\('wide', \(5,\)\).*the same number of classes"),
        ((Output("sum"),), r"no output of network 'bad' depends on \['side', 'wide'\]"),
    ],
)
def test_outputs_that_cannot_be_are_refused(outputs: tuple[Output, ...], message: str) -> None:
    inputs = DIAMOND | {"wide": ("sum",)}
    with pytest.raises(NetworkError, match=message):
        checked_outputs("bad", outputs, inputs, SHAPES | {"wide": (5,)})


def test_ancestors_are_all_that_a_layer_depends_on() -> None:
    assert ancestors(["side"], DIAMOND) == {"side", "right", "a"}
    assert ancestors(["sum", "left"], DIAMOND) == {"sum", "left", "right", "a"}


def test_gradient_is_needed_from_the_first_trained_parameters_on() -> None:
    trained = ParameterSpec("left.weights", (1,), "weights")
    statistic = ParameterSpec("a.running_mean", (1,), "running_mean", statistic_momentum=0.1)
    assert behind_parameters(DIAMOND, [statistic, trained]) == {"left", "sum"}
    assert behind_parameters(DIAMOND, [statistic]) == set()
