"""VGG with 11, 13, 16 and 19 layers that have weights."""

from __future__ import annotations

from knltrain.network.layers import Convolution, Dense, Dropout, Layer, MaxPooling, ReLU
from knltrain.network.network import Network

FILTERS = (64, 128, 256, 512, 512)
"""Of the convolutions in each block; a pooling behind each block halves height and width."""


def vgg11(classes: int = 1000) -> Network:
    """Configuration A of the paper, 132,863,336 parameters with 1000 classes; else as vgg16."""
    return _vgg("vgg-11", (1, 1, 2, 2, 2), classes)


def vgg13(classes: int = 1000) -> Network:
    """Configuration B of the paper, 133,047,848 parameters with 1000 classes; else as vgg16."""
    return _vgg("vgg-13", (2, 2, 2, 2, 2), classes)


def vgg16(classes: int = 1000) -> Network:
    """Configuration D of the paper, 138,357,544 parameters with 1000 classes.

    Simonyan and Zisserman, *Very Deep Convolutional Networks for Large-Scale Image Recognition*,
    ICLR 2015. Input 224x224x3. First weights as torchvision draws them, which trains without the
    paper's detour over a shallower network: convolutions "msra", dense layers normal with 0.01.
    """
    return _vgg("vgg-16", (2, 2, 3, 3, 3), classes)


def vgg19(classes: int = 1000) -> Network:
    """Configuration E of the paper, 143,667,240 parameters with 1000 classes; else as vgg16."""
    return _vgg("vgg-19", (2, 2, 4, 4, 4), classes)


def _vgg(name: str, convolutions: tuple[int, ...], classes: int) -> Network:
    layers: list[Layer] = []
    for block, (count, filters) in enumerate(zip(convolutions, FILTERS, strict=True), start=1):
        for number in range(1, count + 1):
            layers += _convolution(f"{block}_{number}", filters)
        layers.append(MaxPooling(f"pool{block}", kernel=2, stride=2))
    layers += [*_hidden(6), *_hidden(7), Dense("fc8", classes, initialiser="gaussian:0.01")]
    return Network(name, (224, 224, 3), tuple(layers))


def _convolution(place: str, filters: int) -> tuple[Layer, ...]:
    convolution = Convolution(f"conv{place}", filters, kernel=3, padding=1, initialiser="msra")
    return convolution, ReLU(f"relu{place}")


def _hidden(number: int) -> tuple[Layer, ...]:
    return (
        Dense(f"fc{number}", 4096, initialiser="gaussian:0.01"),
        ReLU(f"relu{number}"),
        Dropout(f"drop{number}", rate=0.5),
    )
