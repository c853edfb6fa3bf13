from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from knltrain.distributed_ops import Flatten, Images, Options
from knltrain.errors import NetworkError


def test_fewer_images_are_filled_up_with_zeros(
    options: Options, random: Callable[..., Any]
) -> None:
    layer, images = Images("images", (5, 4, 3, 2), options), random(5, 4, 3, 2)
    layer.load(images)
    found = layer.load(images[:2])
    np.testing.assert_array_equal(found[:2], images[:2])
    assert not found[2:].any()


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((6, 4, 3, 2), np.float32),
        np.zeros((2, 4, 4, 2), np.float32),
        np.zeros((5, 4, 3, 2)),
    ],
)
def test_images_that_do_not_fit_are_refused(images: Any) -> None:
    with pytest.raises(NetworkError, match="expected float32 and at most 5 images"):
        Images("images", (5, 4, 3, 2), Options("reference")).load(images)


def test_maps_become_vectors_channel_by_channel_and_come_back(
    options: Options, laid_out: Callable[..., Any], random: Callable[..., Any]
) -> None:
    layer, images = Flatten("flatten", (5, 4, 3, 2), options), random(5, 4, 3, 2)
    vectors = layer.forward(laid_out(options, images))
    np.testing.assert_array_equal(vectors[:5], images.transpose(0, 3, 1, 2).reshape(5, -1))
    np.testing.assert_array_equal(layer.backward_data(vectors)[:5], images)
    assert layer.outputs == (5, 24)
    assert layer.cost("forward").memory_bytes == 2 * 4 * 5 * 24


def test_maps_of_another_shape_are_refused(random: Callable[..., Any]) -> None:
    with pytest.raises(NetworkError, match="layer 'flatten' was given images"):
        Flatten("flatten", (5, 4, 3, 2), Options("reference")).forward(random(5, 4, 3, 1))
