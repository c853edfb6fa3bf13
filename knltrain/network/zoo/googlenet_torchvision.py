"""GoogLeNet in torchvision's version: batch normalisation, and 3x3 in place of 5x5."""

from __future__ import annotations

from knltrain.network.graph import Output
from knltrain.network.layers import (
    AdaptiveAveragePooling,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.zoo.googlenet import MODULES, Widths
from knltrain.network.zoo.inception import Step, branch, joined

_HEADS = {"4a": "aux1", "4d": "aux2"}
"""Module -> the auxiliary classifier behind it."""


def googlenet_torchvision(classes: int = 1000) -> Network:
    """torchvision's GoogLeNet; 13,004,888 parameters with 1000 classes. Input 224x224x3.

    6,624,904 of them are what is left in evaluation, without the two auxiliary classifiers, whose
    losses weigh 0.3 each. Poolings round sizes up.
    """
    layers: list[Layer] = [
        *branch("conv1", "images", Step(64, 7, 2)),
        MaxPooling("maxpool1", 3, 2, ceil=True),
        *branch("conv2", "maxpool1", Step(64)),
        *branch("conv3", "conv2/relu", Step(192, 3)),
        MaxPooling("maxpool2", 3, 2, ceil=True),
    ]
    heads: list[Layer] = []
    for name, widths in MODULES.items():
        if name in ("4a", "5a"):
            kernel = 3 if name == "4a" else 2
            layers.append(MaxPooling(f"maxpool{name[0]}", kernel, 2, ceil=True))
        layers += _inception(f"inception{name}", layers[-1].name, widths)
        if name in _HEADS:
            heads += _auxiliary(_HEADS[name], layers[-1].name, classes)
    layers += [
        *heads,
        GlobalAveragePooling("avgpool", ("inception5b",)),
        Dropout("dropout", rate=0.2),
        Dense("fc", classes, initialiser="gaussian:0.01"),
    ]
    outputs = Output("fc"), Output("aux1/fc2", 0.3), Output("aux2/fc2", 0.3)
    return Network("googlenet-torchvision", (224, 224, 3), tuple(layers), outputs)


def _inception(name: str, source: str, widths: Widths) -> list[Layer]:
    one, three_reduce, three, five_reduce, five, pooled = widths
    pool = MaxPooling(f"{name}/pool", 3, 1, 1, ceil=True, inputs=(source,))
    return joined(
        name,
        branch(f"{name}/branch1", source, Step(one)),
        branch(f"{name}/branch2", source, Step(three_reduce), Step(three, 3)),
        branch(f"{name}/branch3", source, Step(five_reduce), Step(five, 3)),
        [pool, *branch(f"{name}/branch4", pool.name, Step(pooled))],
    )


def _auxiliary(name: str, source: str, classes: int) -> list[Layer]:
    return [
        AdaptiveAveragePooling(f"{name}/pool", 4, 4, (source,)),
        *branch(f"{name}/conv", f"{name}/pool", Step(128)),
        Dense(f"{name}/fc1", 1024),
        ReLU(f"{name}/relu"),
        Dropout(f"{name}/dropout", rate=0.7),
        Dense(f"{name}/fc2", classes, initialiser="gaussian:0.01"),
    ]
