"""DenseNet: every layer of a block takes the maps of all layers before it."""

from __future__ import annotations

from knltrain.network.layers import (
    AveragePooling,
    BatchNormalisation,
    Concatenation,
    Dense,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.zoo.convolving import unbiased


def densenet121(classes: int = 1000) -> Network:
    """DenseNet-121, 7,978,856 parameters with 1000 classes. Input 224x224x3.

    Huang, Liu, van der Maaten and Weinberger, *Densely Connected Convolutional Networks*, CVPR
    2017: normalisation and ReLU come before each convolution. Layers bear torchvision's names with
    "/" for ".". First weights are "msra".
    """
    return _densenet("densenet-121", (6, 12, 24, 16), 64, 32, classes)


def densenet161(classes: int = 1000) -> Network:
    """DenseNet-161 of growth 48, 28,681,000 parameters with 1000 classes; else as densenet121."""
    return _densenet("densenet-161", (6, 12, 36, 24), 96, 48, classes)


def densenet169(classes: int = 1000) -> Network:
    """DenseNet-169, 14,149,480 parameters with 1000 classes; else as densenet121."""
    return _densenet("densenet-169", (6, 12, 32, 32), 64, 32, classes)


def densenet201(classes: int = 1000) -> Network:
    """DenseNet-201, 20,013,928 parameters with 1000 classes; else as densenet121."""
    return _densenet("densenet-201", (6, 12, 48, 32), 64, 32, classes)


def _densenet(
    name: str, blocks: tuple[int, ...], filters: int, growth: int, classes: int
) -> Network:
    """`growth` channels are added by each of the `blocks`' layers."""
    layers: list[Layer] = [
        unbiased("features/conv0", filters, 7, stride=2),
        BatchNormalisation("features/norm0"),
        ReLU("features/relu0"),
        MaxPooling("features/pool0", kernel=3, stride=2, padding=1),
    ]
    for block, count in enumerate(blocks, start=1):
        for number in range(1, count + 1):
            layers += _dense_layer(
                f"features/denseblock{block}/denselayer{number}", layers[-1].name, growth
            )
        filters += growth * count
        if block < len(blocks):
            filters //= 2
            layers += _transition(f"features/transition{block}", filters)
    layers += [
        BatchNormalisation("features/norm5"),
        ReLU("relu"),
        GlobalAveragePooling("avgpool"),
        Dense("classifier", classes),
    ]
    return Network(name, (224, 224, 3), tuple(layers))


def _dense_layer(name: str, source: str, growth: int) -> list[Layer]:
    return [
        BatchNormalisation(f"{name}/norm1", inputs=(source,)),
        ReLU(f"{name}/relu1"),
        unbiased(f"{name}/conv1", 4 * growth, 1),
        BatchNormalisation(f"{name}/norm2"),
        ReLU(f"{name}/relu2"),
        unbiased(f"{name}/conv2", growth, 3),
        Concatenation(f"{name}/cat", (source, f"{name}/conv2")),
    ]


def _transition(name: str, filters: int) -> list[Layer]:
    return [
        BatchNormalisation(f"{name}/norm"),
        ReLU(f"{name}/relu"),
        unbiased(f"{name}/conv", filters, 1),
        AveragePooling(f"{name}/pool", kernel=2, stride=2),
    ]
