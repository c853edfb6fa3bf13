from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.net_layer import Blob, NetLayer
from knltrain.interchange.caffe.text_format import parse

MAP = Blob("conv", (5, 6, 7), 1)


def _layer(*inputs: Blob) -> NetLayer:
    bottoms = tuple(f"b{place}" for place, _ in enumerate(inputs))
    return NetLayer(parse("\nname: 'a'", "a.prototxt"), "a", "Kind", bottoms, ("top",), inputs)


def test_only_input_is_given() -> None:
    assert _layer(MAP).only(is_map=True) is MAP


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((), "Kind with 0 bottoms and 1 tops: expected one of each"),
        ((MAP, MAP), "Kind with 2 bottoms and 1 tops"),
        ((Blob("fc", (5,), 1),), "Kind of a vector: expected feature maps"),
        ((Blob("conv", (5, 6, 7), 1, flat=True),), "Kind of a vector: expected feature maps"),
        ((Blob("", (), 1, "labels"),), "Kind of labels: only losses and accuracies read them"),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs: tuple[Blob, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"a.prototxt:2: {message}"):
        _layer(*inputs).only(is_map=True)
