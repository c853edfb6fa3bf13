"""Networks by name: those of the zoo, as a configuration names them, and those of files."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

from knltrain.errors import ConfigError, unknown_name
from knltrain.network.network import Network


def _of(module: str, function: str) -> Callable[..., Network]:
    """The function of a module of the zoo, which is imported when it is called."""

    def network(*classes: int) -> Network:
        made: Network = getattr(import_module(f"{__package__}.{module}"), function)(*classes)
        return made

    return network


NETWORKS: Final[dict[str, Callable[..., Network]]] = {
    "alexnet": _of("alexnet", "alexnet"),
    "alexnet-torchvision": _of("alexnet", "alexnet_torchvision"),
    "alexnet-ungrouped": _of("alexnet", "alexnet_ungrouped"),
    "caffenet": _of("alexnet", "caffenet"),
    "cifar-full": _of("cifar_full", "cifar_full"),
    "cifar-quick": _of("cifar_quick", "cifar_quick"),
    "convnext-small": _of("convnext", "convnext_small"),
    "convnext-tiny": _of("convnext", "convnext_tiny"),
    "densenet-121": _of("densenet", "densenet121"),
    "densenet-161": _of("densenet", "densenet161"),
    "densenet-169": _of("densenet", "densenet169"),
    "densenet-201": _of("densenet", "densenet201"),
    "efficientnet-b0": _of("efficientnet", "efficientnet_b0"),
    "efficientnet-v2-s": _of("efficientnet", "efficientnet_v2_s"),
    "googlenet": _of("googlenet", "googlenet"),
    "googlenet-torchvision": _of("googlenet_torchvision", "googlenet_torchvision"),
    "inception-resnet-v2": _of("inception_v4", "inception_resnet_v2"),
    "inception-v3": _of("inception_v3", "inception_v3"),
    "inception-v4": _of("inception_v4", "inception_v4"),
    "lenet": _of("lenet", "lenet"),
    "mobilenet-v1": _of("mobilenet", "mobilenet_v1"),
    "mobilenet-v2": _of("mobilenet", "mobilenet_v2"),
    "mobilenet-v3-large": _of("mobilenet_v3", "mobilenet_v3_large"),
    "mobilenet-v3-small": _of("mobilenet_v3", "mobilenet_v3_small"),
    "regnet-x-400mf": _of("regnet", "regnet_x_400mf"),
    "regnet-x-8gf": _of("regnet", "regnet_x_8gf"),
    "regnet-y-400mf": _of("regnet", "regnet_y_400mf"),
    "regnet-y-8gf": _of("regnet", "regnet_y_8gf"),
    "resnet-18": _of("resnet", "resnet18"),
    "resnet-18-cifar": _of("cifar_resnet", "resnet18_cifar"),
    "resnet-18-narrow": _of("cifar_resnet", "resnet18_narrow"),
    "resnet-20": _of("cifar_resnet", "resnet20"),
    "resnet-32": _of("cifar_resnet", "resnet32"),
    "resnet-34": _of("resnet", "resnet34"),
    "resnet-50": _of("resnet", "resnet50"),
    "resnet-50-v1": _of("resnet", "resnet50_v1"),
    "resnet-56": _of("cifar_resnet", "resnet56"),
    "resnet-101": _of("resnet", "resnet101"),
    "resnet-101-v1": _of("resnet", "resnet101_v1"),
    "resnet-152": _of("resnet", "resnet152"),
    "resnet-152-v1": _of("resnet", "resnet152_v1"),
    "resnext-50": _of("resnet", "resnext50"),
    "resnext-101": _of("resnet", "resnext101"),
    "shufflenet-v2-0.5": _of("shufflenet", "shufflenet_v2_x0_5"),
    "shufflenet-v2-1.0": _of("shufflenet", "shufflenet_v2_x1_0"),
    "shufflenet-v2-1.5": _of("shufflenet", "shufflenet_v2_x1_5"),
    "shufflenet-v2-2.0": _of("shufflenet", "shufflenet_v2_x2_0"),
    "squeezenet-1.0": _of("squeezenet", "squeezenet1_0"),
    "squeezenet-1.1": _of("squeezenet", "squeezenet1_1"),
    "vgg-11": _of("vgg", "vgg11"),
    "vgg-13": _of("vgg", "vgg13"),
    "vgg-16": _of("vgg", "vgg16"),
    "vgg-19": _of("vgg", "vgg19"),
    "wide-resnet-50": _of("resnet", "wide_resnet50"),
    "wide-resnet-101": _of("resnet", "wide_resnet101"),
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
    from knltrain.network.description import network_from_json

    network = network_from_json(text, name)
    if classes not in (None, network.output_shape[-1]):
        raise ConfigError(
            f"network.classes = {classes}: the network of {name} has {network.output_shape[-1]}; "
            "leave it out"
        )
    return network
