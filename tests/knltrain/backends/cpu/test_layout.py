"""What the lanes of vectors are."""

from __future__ import annotations

import pytest

from knltrain.backends.cpu.layout import layout_of
from knltrain.network.layers import Convolution, Dense, PReLU
from knltrain.network.network import Network
from knltrain.network.zoo.networks import network_named
from vectorized_ops.errors import OperationError


def network(*layers: Convolution | PReLU | Dense) -> Network:
    return Network("made", (16, 16, 32), (*layers, Dense("classes", 10)))


@pytest.mark.parametrize(
    ("name", "images", "layout"),
    [
        ("resnet-50", 1, "channels_last"),
        ("resnet-50", 8, "channels_last"),
        ("resnet-50", 16, "images_last"),
        ("resnet-50", 20, "channels_last"),
        ("resnet-50", 24, "channels_last"),
        ("resnet-50", 32, "images_last"),
        ("resnet-50", 60, "images_last"),
        ("googlenet", 24, "channels_last"),
        ("googlenet", 1, "channels_last"),
        ("cifar-quick", 4, "channels_last"),
        ("lenet", 1, "images_last"),
        ("lenet", 4, "images_last"),
        ("lenet", 20, "images_last"),
        ("mobilenet-v2", 8, "images_last"),
    ],
)
def test_images_fill_the_lanes_where_there_are_whole_vectors_of_them(
    name: str, images: int, layout: str
) -> None:
    assert layout_of(network_named(name), images) == layout


@pytest.mark.parametrize(
    ("layer", "layout"),
    [
        (Convolution("wide", 64, 3, padding=1), "channels_last"),
        (Convolution("narrow", 9, 3, padding=1), "images_last"),
        (Convolution("grouped", 32, 3, padding=1, groups=8), "images_last"),
    ],
)
def test_channels_must_fill_them_too(layer: Convolution, layout: str) -> None:
    assert layout_of(network(layer), 8) == layout


def test_layers_without_such_kernels_keep_images_in_the_lanes() -> None:
    convolution = Convolution("wide", 64, 3, padding=1)
    assert layout_of(network(convolution, PReLU("bent")), 8) == "images_last"


def test_without_openmp_images_stay_in_the_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise OperationError(f"{name}: no OpenMP threads")

    monkeypatch.setattr("knltrain.backends.cpu.layout.import_module", refuse)
    assert layout_of(network_named("resnet-50"), 8) == "images_last"
