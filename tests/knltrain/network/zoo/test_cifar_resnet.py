"""CIFAR's residual networks, number for number as published but for their shortcuts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.network.layers import Addition, Convolution
from knltrain.network.network import Network
from knltrain.network.zoo.cifar_resnet import (
    resnet18_cifar,
    resnet18_narrow,
    resnet20,
    resnet32,
    resnet56,
)

PROJECTIONS = 2752
"""Parameters of 16 -> 32 and 32 -> 64 channels and of the normalisations behind them."""


@pytest.mark.parametrize(
    ("build", "published", "multiply_adds", "weighted"),
    [
        (resnet20, 0.27, 40.8, 20),
        (resnet32, 0.46, 69.1, 32),
        (resnet56, 0.85, 125.8, 56),
    ],
)
def test_size_and_depth_are_the_published_ones(
    build: Callable[[], Network], published: float, multiply_adds: float, weighted: int
) -> None:
    """Millions of parameters of table 6; layers with weights are 6n + 2."""
    network = build()
    own = [layer for layer in network.layers if "shortcut" not in layer.name]
    assert round((network.parameter_count - PROJECTIONS) / 1e6, 2) == pytest.approx(
        published, abs=0.01
    )
    assert sum(isinstance(layer, Convolution) for layer in own) + 1 == weighted
    assert sum(isinstance(layer, Addition) for layer in own) == (weighted - 2) // 2
    assert network.flops_per_image / 2e6 == pytest.approx(multiply_adds, rel=2e-2)


def test_counts_are_those_of_projections() -> None:
    counts = [build().parameter_count for build in (resnet20, resnet32, resnet56)]
    assert counts == [272_474, 466_906, 855_770]


def test_stages_have_the_sizes_of_the_paper() -> None:
    network = resnet20(classes=7)
    assert network.input_shape == (32, 32, 3)
    for stage, (size, width) in enumerate(((32, 16), (16, 32), (8, 64)), start=1):
        for block in range(3):
            assert network.shape_of(f"stage{stage}/{block}/relu") == (size, size, width)
    assert network.output_shape == (7,)


def test_only_blocks_that_shrink_have_a_projection() -> None:
    projected = [layer.name for layer in resnet32().layers if layer.name.endswith("shortcut")]
    assert projected == ["stage2/0/shortcut", "stage3/0/shortcut"]
    assert resnet32().consumers("stage1/4/relu") == ("stage2/0/conv1", "stage2/0/shortcut")


@pytest.mark.parametrize(
    ("build", "parameters", "multiply_adds", "widths"),
    [
        (resnet18_cifar, 11_173_962, 555.4, (64, 128, 256, 512)),
        (resnet18_narrow, 1_575_202, 78.5, (24, 48, 96, 192)),
    ],
)
def test_resnet_18_has_four_stages_of_two_blocks(
    build: Callable[[], Network], parameters: int, multiply_adds: float, widths: tuple[int, ...]
) -> None:
    network = build()
    assert network.parameter_count == parameters
    assert network.flops_per_image / 2e6 == pytest.approx(multiply_adds, rel=1e-3)
    for stage, (size, width) in enumerate(zip((32, 16, 8, 4), widths, strict=True), start=1):
        for block in range(2):
            assert network.shape_of(f"stage{stage}/{block}/relu") == (size, size, width)
    assert sum(isinstance(layer, Addition) for layer in network.layers) == 8
