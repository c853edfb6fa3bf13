"""Residual networks with 18 and with 50 layers that have weights."""

from __future__ import annotations

from knltrain.network.layers import (
    Addition,
    BatchNormalisation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network

WIDTHS = (64, 128, 256, 512)
"""Of the 3x3 convolutions in each of the four stages."""

Kernels = tuple[tuple[int, int, int], ...]
"""The convolutions of a block, each (filters, kernel, stride)."""


def resnet18(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNet-18, two 3x3 convolutions per block; 11,689,512 parameters with 1000 classes.

    He, Zhang, Ren and Sun, *Deep Residual Learning for Image Recognition*, CVPR 2016. Input
    224x224x3. Layers bear torchvision's names with "/" for ".". The last normalisation of each
    block starts with scale `last_scale`: with 0 every block starts as the identity (Goyal et al.,
    arXiv 1706.02677, section 5.1). First weights are "msra", those of `fc` normal with 0.01.
    """
    layers = _stem()
    for stage, width in enumerate(WIDTHS, start=1):
        for number in range(2):
            first = number == 0 and stage > 1
            kernels = ((width, 3, 2 if first else 1), (width, 3, 1))
            layers += _block(f"layer{stage}/{number}", layers[-1].name, kernels, first, last_scale)
    return Network("resnet-18", (224, 224, 3), (*layers, *_classifier(classes)))


def resnet50(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNet-50, 1x1, 3x3 and 1x1 per block; 25,557,032 parameters with 1000 classes.

    Version 1.5, as torchvision's: the stride of a block stands in its 3x3 convolution, where the
    paper has it in the first 1x1 (version 1). Everything else as in resnet18.
    """
    layers = _stem()
    for stage, (width, blocks) in enumerate(zip(WIDTHS, (3, 4, 6, 3), strict=True), start=1):
        for number in range(blocks):
            stride = 2 if number == 0 and stage > 1 else 1
            kernels = ((width, 1, 1), (width, 3, stride), (4 * width, 1, 1))
            layers += _block(
                f"layer{stage}/{number}", layers[-1].name, kernels, number == 0, last_scale
            )
    return Network("resnet-50", (224, 224, 3), (*layers, *_classifier(classes)))


def _stem() -> list[Layer]:
    return [
        *_normalised("conv1", "bn1", (64, 7, 2)),
        ReLU("relu"),
        MaxPooling("maxpool", kernel=3, stride=2, padding=1),
    ]


def _classifier(classes: int) -> tuple[Layer, ...]:
    return GlobalAveragePooling("avgpool"), Dense("fc", classes, initialiser="gaussian:0.01")


def _block(
    name: str, source: str, kernels: Kernels, projected: bool, last_scale: float
) -> tuple[Layer, ...]:
    """Convolutions of `source` plus `source` itself, `projected` by a 1x1 where shapes differ."""
    layers: list[Layer] = []
    for number, kernel in enumerate(kernels, start=1):
        inputs = (source,) if number == 1 else ()
        scale = last_scale if number == len(kernels) else 1.0
        layers += _normalised(f"{name}/conv{number}", f"{name}/bn{number}", kernel, inputs, scale)
        layers.append(ReLU(f"{name}/relu{number}"))
    layers.pop()  # The last one stands behind the sum.
    joined = (layers[-1].name, f"{name}/downsample/1" if projected else source)
    if projected:
        stride = max(stride for _, _, stride in kernels)
        layers += _normalised(
            f"{name}/downsample/0", f"{name}/downsample/1", (kernels[-1][0], 1, stride), (source,)
        )
    return (*layers, Addition(f"{name}/add", joined), ReLU(f"{name}/relu"))


def _normalised(
    convolution: str,
    normalisation: str,
    kernel: tuple[int, int, int],
    inputs: tuple[str, ...] = (),
    scale: float = 1.0,
) -> tuple[Layer, ...]:
    filters, size, stride = kernel
    return (
        Convolution(
            convolution,
            filters,
            size,
            stride,
            padding=size // 2,
            bias=False,
            initialiser="msra",
            inputs=inputs,
        ),
        BatchNormalisation(normalisation, initial_scale=scale),
    )
