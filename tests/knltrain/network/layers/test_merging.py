"""Layers with several inputs take those that fit together."""

from __future__ import annotations

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import Addition, ChannelProduct, Concatenation, Shape


def test_concatenation_adds_up_channels() -> None:
    assert Concatenation("c").output_shape(((4, 5, 3), (4, 5, 1), (4, 5, 8))) == (4, 5, 12)
    assert Concatenation("c").output_shape(((3,), (4,))) == (7,)


@pytest.mark.parametrize("shape", [(4, 5, 3), (7,)])
def test_addition_keeps_the_shape(shape: Shape) -> None:
    assert Addition("a").output_shape((shape, shape)) == shape


@pytest.mark.parametrize(
    "shapes", [((4, 5, 3),), ((4, 5, 3), (5, 4, 3)), ((4, 5, 3), (3,)), ((3,), (4, 5, 3))]
)
def test_concatenation_of_what_does_not_fit_is_refused(shapes: tuple[Shape, ...]) -> None:
    with pytest.raises(NetworkError, match=r"layer 'c' has inputs .* same height and width"):
        Concatenation("c").output_shape(shapes)


@pytest.mark.parametrize(
    "shapes", [((4, 5, 3),), ((4, 5, 3), (4, 5, 1)), ((4, 5, 3), (60,)), ((3,), (3,), (3,))]
)
def test_addition_of_what_does_not_fit_is_refused(shapes: tuple[Shape, ...]) -> None:
    with pytest.raises(NetworkError, match=r"layer 'a' has inputs .* expected two of the same"):
        Addition("a").output_shape(shapes)


def test_channel_product_keeps_the_shape_of_the_maps() -> None:
    assert ChannelProduct("p").output_shape(((4, 5, 3), (3,))) == (4, 5, 3)


@pytest.mark.parametrize(
    "shapes", [((4, 5, 3),), ((4, 5, 3), (4,)), ((3,), (3,)), ((4, 5, 3), (1, 1, 3))]
)
def test_channel_product_of_what_does_not_fit_is_refused(shapes: tuple[Shape, ...]) -> None:
    with pytest.raises(NetworkError, match=r"layer 'p' has inputs .* a factor for each channel"):
        ChannelProduct("p").output_shape(shapes)
