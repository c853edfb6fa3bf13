"""Networks by name: those of the zoo, as a configuration names them, and those of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from knltrain.errors import ConfigError, unknown_name
from knltrain.network.description import network_from_json
from knltrain.network.network import Network
from knltrain.network.zoo.alexnet import alexnet, alexnet_torchvision, caffenet
from knltrain.network.zoo.cifar_quick import cifar_quick
from knltrain.network.zoo.densenet import densenet121, densenet161, densenet169, densenet201
from knltrain.network.zoo.googlenet import googlenet
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.mobilenet import mobilenet_v1, mobilenet_v2
from knltrain.network.zoo.regnet import regnet_x_8gf, regnet_x_400mf
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
from knltrain.network.zoo.squeezenet import squeezenet1_0, squeezenet1_1
from knltrain.network.zoo.vgg import vgg11, vgg13, vgg16, vgg19

NETWORKS: Final[dict[str, Callable[..., Network]]] = {
    "alexnet": alexnet,
    "alexnet-torchvision": alexnet_torchvision,
    "caffenet": caffenet,
    "cifar-quick": cifar_quick,
    "densenet-121": densenet121,
    "densenet-161": densenet161,
    "densenet-169": densenet169,
    "densenet-201": densenet201,
    "googlenet": googlenet,
    "lenet": lenet,
    "mobilenet-v1": mobilenet_v1,
    "mobilenet-v2": mobilenet_v2,
    "regnet-x-400mf": regnet_x_400mf,
    "regnet-x-8gf": regnet_x_8gf,
    "resnet-18": resnet18,
    "resnet-34": resnet34,
    "resnet-50": resnet50,
    "resnet-50-v1": resnet50_v1,
    "resnet-101": resnet101,
    "resnet-101-v1": resnet101_v1,
    "resnet-152": resnet152,
    "resnet-152-v1": resnet152_v1,
    "resnext-50": resnext50,
    "resnext-101": resnext101,
    "squeezenet-1.0": squeezenet1_0,
    "squeezenet-1.1": squeezenet1_1,
    "vgg-11": vgg11,
    "vgg-13": vgg13,
    "vgg-16": vgg16,
    "vgg-19": vgg19,
    "wide-resnet-50": wide_resnet50,
    "wide-resnet-101": wide_resnet101,
}


def network_named(name: str, classes: int | None = None) -> Network:
    """A network of the zoo, or that of a file with its description (a name that ends in .json).

    Raises ConfigError for unknown names, files that cannot be read and classes that a file's
    network has not; NetworkError for a file that describes no network.
    """
    if not name.endswith(".json"):
        if name not in NETWORKS:
            raise ConfigError(unknown_name("network.name", name, NETWORKS))
        return NETWORKS[name]() if classes is None else NETWORKS[name](classes)
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{name} cannot be read ({error}): expected the file of a network's description"
        ) from error
    network = network_from_json(text, name)
    if classes not in (None, network.output_shape[-1]):
        raise ConfigError(
            f"network.classes = {classes}: the network of {name} has {network.output_shape[-1]}; "
            "leave it out"
        )
    return network
