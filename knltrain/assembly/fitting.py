"""Brings the network of a configuration and its images to one size."""

from __future__ import annotations

from dataclasses import replace

from knltrain.config import DataConfig, RunConfig
from knltrain.errors import ConfigError, NetworkError
from knltrain.network.network import Network
from knltrain.network.zoo.networks import network_named


def fitted_network(config: RunConfig) -> Network:
    """The network of `network.name`; one of the zoo takes images of `data.side_pixels`.

    Left out, they have the size that it is known for. Raises ConfigError where its layers leave
    nothing of such an image.
    """
    chosen, side = config.network, config.data.side_pixels
    network = network_named(chosen.name, chosen.classes)
    if side is None or chosen.name.endswith(".json") or network.input_shape[:2] == (side, side):
        return network
    try:
        return replace(network, input_shape=(side, side, network.input_shape[2]))
    except NetworkError as error:
        known = network.input_shape[0]
        raise ConfigError(
            f"data.side_pixels = {side}: network '{network.name}' does not take images of that "
            f"size ({error}); expected about {known}, which it is known for, or leave it out"
        ) from error


def fitted_data(config: RunConfig) -> DataConfig:
    """`[data]`; computed pictures whose size or classes are left out are as the network's."""
    chosen = config.data
    if config.network.module is not None or (chosen.image and chosen.classes):
        return chosen
    network = fitted_network(config)
    update = {
        "image": chosen.image or network.input_shape,
        "classes": chosen.classes or network.output_shape[-1],
    }
    return chosen.model_copy(update=update)
