"""Residual networks: ResNet, its first version apart, ResNeXt and Wide ResNet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

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
from knltrain.network.zoo.convolving import unbiased

WIDTHS: Final = (64, 128, 256, 512)
"""Of the 3x3 convolutions in each of the four stages, before they are widened."""


@dataclass(frozen=True, slots=True)
class _Kernel:
    filters: int
    size: int = 1
    stride: int = 1
    groups: int = 1


@dataclass(frozen=True, slots=True)
class _Form:
    """Blocks of each stage, and what they are made of.

    A bottleneck is 1x1, 3x3 and 1x1, the 3x3 of `groups` groups and `widening` times as wide; else
    a block is two 3x3. `strided_first` has the stride of a bottleneck in its first 1x1, as the
    paper, and not in its 3x3. `first_bias` gives the first convolution a bias.
    """

    blocks: tuple[int, int, int, int]
    bottleneck: bool = True
    groups: int = 1
    widening: int = 1
    strided_first: bool = False
    first_bias: bool = False

    def kernels(self, width: int, stride: int) -> tuple[_Kernel, ...]:
        """The convolutions of a block."""
        if not self.bottleneck:
            return _Kernel(width, 3, stride), _Kernel(width, 3)
        wide, strides = width * self.widening, (stride, 1) if self.strided_first else (1, stride)
        return (
            _Kernel(wide, 1, strides[0]),
            _Kernel(wide, 3, strides[1], self.groups),
            _Kernel(4 * width),
        )


def resnet18(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNet-18, two 3x3 convolutions per block; 11,689,512 parameters with 1000 classes.

    He, Zhang, Ren and Sun, *Deep Residual Learning for Image Recognition*, CVPR 2016. Input
    224x224x3. Layers bear torchvision's names with "/" for ".". The last normalisation of each
    block starts with scale `last_scale`: with 0 every block starts as the identity (Goyal et al.,
    arXiv 1706.02677, section 5.1). First weights are "msra", those of `fc` normal with 0.01.
    """
    return _resnet("resnet-18", _Form((2, 2, 2, 2), bottleneck=False), classes, last_scale)


def resnet34(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNet-34, 21,797,672 parameters; else as resnet18."""
    return _resnet("resnet-34", _Form((3, 4, 6, 3), bottleneck=False), classes, last_scale)


def resnet50(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNet-50, 1x1, 3x3 and 1x1 per block; 25,557,032 parameters with 1000 classes.

    Version 1.5, as torchvision's: the stride of a block stands in its 3x3 convolution, where the
    paper has it in the first 1x1 (version 1). Everything else as in resnet18.
    """
    return _resnet("resnet-50", _FIFTY, classes, last_scale)


def resnet101(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNet-101, version 1.5; 44,549,160 parameters; else as resnet50."""
    return _resnet("resnet-101", _HUNDRED, classes, last_scale)


def resnet152(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNet-152, version 1.5; 60,192,808 parameters; else as resnet50."""
    return _resnet("resnet-152", _HUNDRED_FIFTY, classes, last_scale)


def resnet50_v1(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNet-50 as in the paper and its Caffe files, with a bias in conv1; 25,557,096 parameters.

    The stride of a block stands in its first 1x1: 3.86 G multiply-adds instead of 4.09 G.
    """
    form = replace(_FIFTY, strided_first=True, first_bias=True)
    return _resnet("resnet-50-v1", form, classes, last_scale)


def resnet101_v1(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNet-101 as in the paper; 44,549,160 parameters."""
    return _resnet("resnet-101-v1", replace(_HUNDRED, strided_first=True), classes, last_scale)


def resnet152_v1(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNet-152 as in the paper; 60,192,808 parameters."""
    form = replace(_HUNDRED_FIFTY, strided_first=True)
    return _resnet("resnet-152-v1", form, classes, last_scale)


def resnext50(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNeXt-50 32x4d, 25,028,904 parameters; Xie et al., CVPR 2017. Else as resnet50."""
    form = replace(_FIFTY, groups=32, widening=2)
    return _resnet("resnext-50", form, classes, last_scale)


def resnext101(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """ResNeXt-101 32x8d, 88,791,336 parameters; Xie et al., CVPR 2017. Else as resnet50."""
    form = replace(_HUNDRED, groups=32, widening=4)
    return _resnet("resnext-101", form, classes, last_scale)


def wide_resnet50(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """Wide ResNet-50-2, 68,883,240 parameters; Zagoruyko and Komodakis, BMVC 2016."""
    return _resnet("wide-resnet-50", replace(_FIFTY, widening=2), classes, last_scale)


def wide_resnet101(classes: int = 1000, last_scale: float = 1.0) -> Network:
    """Wide ResNet-101-2, 126,886,696 parameters; Zagoruyko and Komodakis, BMVC 2016."""
    return _resnet("wide-resnet-101", replace(_HUNDRED, widening=2), classes, last_scale)


_FIFTY: Final = _Form((3, 4, 6, 3))
_HUNDRED: Final = _Form((3, 4, 23, 3))
_HUNDRED_FIFTY: Final = _Form((3, 8, 36, 3))


def _resnet(name: str, form: _Form, classes: int, last_scale: float) -> Network:
    layers = _stem(form.first_bias)
    for stage, (width, blocks) in enumerate(zip(WIDTHS, form.blocks, strict=True), start=1):
        for number in range(blocks):
            first = number == 0
            kernels = form.kernels(width, 2 if first and stage > 1 else 1)
            projected = first and (form.bottleneck or stage > 1)
            layers += _block(
                f"layer{stage}/{number}", layers[-1].name, kernels, projected, last_scale
            )
    return Network(name, (224, 224, 3), (*layers, *_classifier(classes)))


def _stem(bias: bool) -> list[Layer]:
    convolution, normalisation = _normalised("conv1", "bn1", _Kernel(64, 7, 2))
    assert isinstance(convolution, Convolution)
    return [
        replace(convolution, bias=bias),
        normalisation,
        ReLU("relu"),
        MaxPooling("maxpool", kernel=3, stride=2, padding=1),
    ]


def _classifier(classes: int) -> tuple[Layer, ...]:
    return GlobalAveragePooling("avgpool"), Dense("fc", classes, initialiser="gaussian:0.01")


def _block(
    name: str, source: str, kernels: tuple[_Kernel, ...], projected: bool, last_scale: float
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
        short = _Kernel(kernels[-1].filters, stride=max(kernel.stride for kernel in kernels))
        layers += _normalised(f"{name}/downsample/0", f"{name}/downsample/1", short, (source,))
    return (*layers, Addition(f"{name}/add", joined), ReLU(f"{name}/relu"))


def _normalised(
    convolution: str,
    normalisation: str,
    kernel: _Kernel,
    inputs: tuple[str, ...] = (),
    scale: float = 1.0,
) -> tuple[Layer, ...]:
    return (
        unbiased(convolution, kernel.filters, kernel.size, kernel.stride, kernel.groups, inputs),
        BatchNormalisation(normalisation, initial_scale=scale),
    )
