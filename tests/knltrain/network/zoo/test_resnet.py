"""Residual networks, number for number as published."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.network.layers import Addition, BatchNormalisation, Convolution
from knltrain.network.network import Network
from knltrain.network.zoo.resnet import (
    resnet18,
    resnet34,
    resnet50,
    resnet50_v1,
    resnet101,
    resnet101_v1,
    resnet152,
    resnet152_v1,
    resnext50,
    resnext101,
    wide_resnet50,
    wide_resnet101,
)

NETWORKS = {"resnet-18": resnet18(), "resnet-50": resnet50()}


@pytest.mark.parametrize(
    ("build", "parameters", "multiply_adds", "blocks"),
    [
        (resnet18, 11_689_512, 1.814, 8),
        (resnet34, 21_797_672, 3.664, 16),
        (resnet50, 25_557_032, 4.089, 16),
        (resnet101, 44_549_160, 7.801, 33),
        (resnet152, 60_192_808, 11.514, 50),
        (resnet50_v1, 25_557_096, 3.858, 16),
        (resnet101_v1, 44_549_160, 7.570, 33),
        (resnet152_v1, 60_192_808, 11.282, 50),
        (resnext50, 25_028_904, 4.230, 16),
        (resnext101, 88_791_336, 16.414, 33),
        (wide_resnet50, 68_883_240, 11.398, 16),
        (wide_resnet101, 126_886_696, 22.753, 33),
    ],
)
def test_size_and_cost_are_the_published_ones(
    build: Callable[[], Network], parameters: int, multiply_adds: float, blocks: int
) -> None:
    """num_params and _ops of torchvision; version 1 counted from its Caffe files."""
    network = build()
    assert network.parameter_count == parameters
    assert network.flops_per_image / 2e9 == pytest.approx(multiply_adds, abs=1e-3)
    assert sum(isinstance(layer, Addition) for layer in network.layers) == blocks


@pytest.mark.parametrize(("name", "factor"), [("resnet-18", 1), ("resnet-50", 4)])
def test_stages_have_the_sizes_of_the_paper(name: str, factor: int) -> None:
    """Table 1 of the paper."""
    network = NETWORKS[name]
    assert network.shape_of("conv1") == (112, 112, 64)
    assert network.shape_of("maxpool") == (56, 56, 64)
    for stage, (size, width) in enumerate(((56, 64), (28, 128), (14, 256), (7, 512)), start=1):
        assert network.shape_of(f"layer{stage}/0/relu") == (size, size, factor * width)
    assert network.output_shape == (1000,)


def _projections(network: Network) -> list[str]:
    return [layer.name for layer in network.layers if layer.name.endswith("downsample/0")]


def test_shortcuts_are_projected_where_shapes_change() -> None:
    assert _projections(NETWORKS["resnet-18"]) == [f"layer{n}/0/downsample/0" for n in (2, 3, 4)]
    assert _projections(NETWORKS["resnet-50"]) == [f"layer{n}/0/downsample/0" for n in (1, 2, 3, 4)]
    block = "layer2/1"
    assert NETWORKS["resnet-50"].consumers("layer2/0/relu") == (f"{block}/conv1", f"{block}/add")


def test_stride_of_resnet_50_stands_in_the_3x3() -> None:
    """Version 1.5, as in torchvision."""
    strided = [
        (layer.name, layer.kernel)
        for layer in NETWORKS["resnet-50"].layers
        if isinstance(layer, Convolution) and layer.stride == 2
    ]
    assert strided == [("conv1", 7)] + [
        (f"layer{stage}/0/{name}", kernel)
        for stage in (2, 3, 4)
        for name, kernel in (("conv2", 3), ("downsample/0", 1))
    ]


def test_stride_of_version_1_stands_in_the_first_1x1() -> None:
    strided = [
        layer.name
        for layer in resnet50_v1().layers
        if isinstance(layer, Convolution) and layer.stride == 2
    ]
    assert strided == ["conv1"] + [
        f"layer{stage}/0/{name}" for stage in (2, 3, 4) for name in ("conv1", "downsample/0")
    ]


@pytest.mark.parametrize("name", list(NETWORKS))
def test_parameters_have_torchvision_s_names(name: str) -> None:
    found = {spec.layer.replace("/", ".") for spec in NETWORKS[name].parameters}
    assert {
        "conv1",
        "bn1",
        "layer1.0.conv1",
        "layer4.1.bn2",
        "layer3.0.downsample.1",
        "fc",
    } <= found


@pytest.mark.parametrize(("build", "last"), [(resnet18, "bn2"), (resnet50, "bn3")])
def test_last_normalisation_of_each_block_starts_as_told(build: type, last: str) -> None:
    network = build(classes=7, last_scale=0.0)
    assert network.output_shape == (7,)
    for layer in network.layers:
        if isinstance(layer, BatchNormalisation):
            assert layer.initial_scale == (0.0 if layer.name.endswith(f"/{last}") else 1.0)
