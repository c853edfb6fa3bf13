"""Decides the values that a configuration leaves open: by the machine, or by other values."""

from __future__ import annotations

from dataclasses import replace

from knltrain.config import DataConfig, RunConfig, with_workers
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError, NetworkError
from knltrain.network.network import Network
from knltrain.network.zoo.networks import network_named

LEAST_IMAGES = 16
"""Images that "auto" gives each worker at least: with fewer, lanes of its vectors stay empty."""

BETA = 0.9
"""β = P α of Zhang, Choromanska, LeCun 2015, if neither α, β nor ρ is given."""


def resolve_workers(config: RunConfig, most: int) -> int:
    """Number of workers: as configured, or for "auto" at most `most` that can share a batch.

    The batch always divides evenly among them: a `RunConfig` accepts no other number. "auto" gives
    each at least 16 images, one full vector. Shares in numbers say how many there are.
    """
    if isinstance(config.workers, int):
        return config.workers
    if isinstance(config.balance.shares, tuple):
        return max(1, len(config.balance.shares) // config.total_nodes)
    batch, nodes = config.train.batch, config.total_nodes
    limit = max(1, min(most, batch // LEAST_IMAGES // nodes))
    if config.balance.shares == "fitted":
        return limit
    fitting = [n for n in range(1, limit + 1) if batch % (n * nodes) == 0]
    return max(fitting, default=1)


def resolved(config: RunConfig, most: int = 1) -> RunConfig:
    """The same run with all values decided: its workers, and what follows from their number.

    `most` is the limit of "auto" on each computer.
    """
    config = with_workers(config, resolve_workers(config, most))
    exchange, workers = config.exchange, config.total_workers
    facts = METHODS.get(exchange.method)
    reads = () if facts is None else facts.reads
    found: dict[str, float | None] = {}
    if "group_size" in reads and workers > 1:
        found["group_size"] = group_size_of(config, workers)
    elif "moving_rate" in reads:  # groups have one of theirs on each level
        found |= {"moving_rate": moving_rate_of(config, workers), "beta": None, "rho": None}
    return config.model_copy(update={"exchange": exchange.model_copy(update=found)})


def moving_rate_of(config: RunConfig, workers: int) -> float:
    """The moving rate α of workers of one center: as configured, ρ η or β / workers.

    η is the base of the learning rate: α stays as it is while the rate changes. ConfigError if ρ η
    or β / workers is not below 1.
    """
    chosen, rate = config.exchange, config.learning_rate.base
    if chosen.moving_rate is not None:
        return chosen.moving_rate
    if chosen.rho is None:
        found = (chosen.beta or BETA) / workers
        said = f"exchange.beta = {chosen.beta} with {workers} worker{'s' * (workers > 1)}"
    else:
        found = chosen.rho * rate
        said = f"exchange.rho = {chosen.rho:g} with a learning rate of {rate:g}"
    if found >= 1:
        raise ConfigError(f"{said} is a moving rate of {found:g}: expected less than 1")
    return found


def group_size_of(config: RunConfig, workers: int) -> int:
    """The group size S as configured, else the largest with which there are two groups.

    On several computers the workers of each are a group; where roots visit the center alone, they
    may be several groups. ConfigError if the configured size does not divide them evenly.
    """
    if config.total_nodes > 1:
        return _group_size_on_nodes(config)
    divisors = (size for size in range(workers // 2, 0, -1) if workers % size == 0)
    return config.exchange.group_size or next(divisors, 1)


def _group_size_on_nodes(config: RunConfig) -> int:
    given, size, nodes = config.exchange.group_size, int(config.workers), config.total_nodes
    if not METHODS[config.exchange.method].comes_alone:
        if given not in (None, size):
            raise ConfigError(
                f"exchange.group_size = {given}: on {nodes} computers the {size} workers of each "
                "are a group: leave it out"
            )
    elif given is not None and size % given:
        raise ConfigError(
            f"exchange.group_size = {given}: a group shares the memory of one computer, and the "
            f"{size} workers of each of {nodes} do not go in groups of that size; expected a "
            f"divisor of {size}, or leave it out: then those of each computer are a group"
        )
    return given or size


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
