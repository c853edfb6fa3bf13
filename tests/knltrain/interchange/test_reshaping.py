"""Forms of values: which of PyTorch's views a network has."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from knltrain.interchange.reshaping import (
    axes_order,
    form_behind,
    form_permuted,
    form_reshaped,
)
from knltrain.network.layers import ChannelProduct, Dense, GlobalAveragePooling, ReLU, Shape


@pytest.mark.parametrize(
    ("before", "shape", "wanted", "found"),
    [
        ("map", (6, 4, 5), (6, 4, 5), "map"),
        ("map", (6, 4, 5), (120,), "flat"),
        ("map", (6, 4, 5), (2, 3, 4, 5), "groups"),
        ("map", (6, 4, 5), (2, 3, 5, 4), None),
        ("groups", (2, 3, 4, 5), (6, 4, 5), "map"),
        ("shuffled", (3, 2, 4, 5), (6, 4, 5), "map"),
        ("shuffled", (3, 2, 4, 5), (6, 5, 4), None),
        ("shuffled", (3, 2, 4, 5), (120,), None),
        ("mean", (6, 1, 1), (6,), "vector"),
        ("mean last", (1, 1, 6), (6,), "vector"),
        ("map last", (4, 5, 6), (120,), None),
        ("vector", (6,), (6, 1, 1), "mean"),
        ("vector", (6,), (1, 1, 6), "mean last"),
        ("mean last", (1, 1, 6), (6, 1, 1), "mean"),
        ("vector", (6,), (1, 6, 1), None),
        ("vector", (6,), (3,), None),
    ],
)
def test_views_have_forms_of_a_network_or_none(
    before: str, shape: Shape, wanted: Shape, found: str | None
) -> None:
    assert form_reshaped(before, shape, wanted) == found


@pytest.mark.parametrize(
    ("before", "order", "found"),
    [
        ("map", (0, 1, 2), "map"),
        ("map", (1, 2, 0), "map last"),
        ("mean", (1, 2, 0), "mean last"),
        ("map last", (2, 0, 1), "map"),
        ("mean last", (2, 0, 1), "mean"),
        ("map last", (1, 2, 0), None),
        ("map", (0, 2, 1), None),
        ("groups", (1, 0, 2, 3), "shuffled"),
        ("shuffled", (1, 0, 2, 3), None),
        ("vector", (0,), "vector"),
    ],
)
def test_channels_go_to_the_end_and_back(before: str, order: Shape, found: str | None) -> None:
    assert form_permuted(before, order) == found


@pytest.mark.parametrize(
    ("move", "order"),
    [
        (lambda values: values.permute(0, 2, 3, 1), (1, 2, 0)),
        (lambda values: values.movedim(1, -1), (1, 2, 0)),
        (lambda values: values.transpose(1, -2), (1, 0, 2)),
        (lambda values: values.transpose(0, 1), None),
    ],
)
def test_order_is_that_behind_the_axis_of_images(
    move: Callable[[torch.Tensor], torch.Tensor], order: Shape | None
) -> None:
    assert axes_order(move, 4) == order


def test_means_and_products_have_the_order_of_their_maps() -> None:
    assert form_behind(GlobalAveragePooling("g"), "map last", (6,)) == "vector"
    assert form_behind(GlobalAveragePooling("g"), "map last", (1, 1, 6)) == "mean last"
    assert form_behind(Dense("d", 6), "mean", (6, 1, 1)) == "mean"
    assert form_behind(ChannelProduct("p"), "mean last", (4, 5, 6)) == "map last"
    assert form_behind(ChannelProduct("p"), "map", (6, 4, 5)) == "map"
    assert form_behind(ReLU("r"), "map last", (4, 5, 6)) == "map last"
