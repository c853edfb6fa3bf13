"""SqueezeNet: AlexNet's accuracy with a fiftieth of its parameters."""

from __future__ import annotations

from knltrain.network.layers import (
    Concatenation,
    Convolution,
    Dropout,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network

_POOL = "pool"


def squeezenet1_0(classes: int = 1000) -> Network:
    """SqueezeNet 1.0, 1,248,424 parameters with 1000 classes. Input 224x224x3.

    Iandola et al., arXiv 1602.07360. A fire module squeezes its maps by 1x1 convolutions and
    expands them by 1x1 and 3x3 ones, whose channels are concatenated. Layers bear torchvision's
    names with "/" for ".". First weights are "msra", those of the last convolution normal with
    0.01.
    """
    fires = (16, 16, 32, _POOL, 32, 48, 48, 64, _POOL, 64)
    return _squeezenet("squeezenet-1.0", 96, 7, fires, classes)


def squeezenet1_1(classes: int = 1000) -> Network:
    """SqueezeNet 1.1 with less than half the work, 1,235,496 parameters; else as squeezenet1_0."""
    fires = (16, 16, _POOL, 32, 32, _POOL, 48, 48, 64, 64)
    return _squeezenet("squeezenet-1.1", 64, 3, fires, classes)


def _squeezenet(
    name: str, filters: int, kernel: int, fires: tuple[int | str, ...], classes: int
) -> Network:
    layers: list[Layer] = [
        Convolution("features/0", filters, kernel, stride=2, initialiser="msra"),
        ReLU("features/1"),
        _pooling(2),
    ]
    for number, squeezed in enumerate(fires, start=3):
        layers += (
            _fire(f"features/{number}", squeezed)
            if isinstance(squeezed, int)
            else [_pooling(number)]
        )
    layers += [
        Dropout("classifier/0", rate=0.5),
        Convolution("classifier/1", classes, 1, initialiser="gaussian:0.01"),
        ReLU("classifier/2"),
        GlobalAveragePooling("classifier/3"),
    ]
    return Network(name, (224, 224, 3), tuple(layers))


def _pooling(number: int) -> Layer:
    return MaxPooling(f"features/{number}", kernel=3, stride=2, ceil=True)


def _fire(name: str, squeezed: int) -> list[Layer]:
    small, large = f"{name}/expand1x1", f"{name}/expand3x3"
    return [
        Convolution(f"{name}/squeeze", squeezed, 1, initialiser="msra"),
        ReLU(f"{name}/squeeze_activation"),
        Convolution(small, 4 * squeezed, 1, initialiser="msra"),
        ReLU(f"{small}_activation"),
        Convolution(
            *(large, 4 * squeezed, 3),
            padding=1,
            initialiser="msra",
            inputs=(f"{name}/squeeze_activation",),
        ),
        ReLU(f"{large}_activation"),
        Concatenation(f"{name}/cat", (f"{small}_activation", f"{large}_activation")),
    ]
