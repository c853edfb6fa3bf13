"""The configuration of a training in the comparison."""

from __future__ import annotations

from knltrain.bench.nodes.training import Ground
from knltrain.network.network import Network
from knltrain.network.zoo.networks import network_named

CLASSES = 10
"""Classes of the data, and so of the networks of all trainings that are compared."""

_EPOCH_STEPS = 4


def network_of(name: str) -> Network:
    """Return the network that all of them train; `ConfigError` if there is none of this name."""
    return network_named(name, CLASSES)


def configuration(ground: Ground, nodes: int, exchange: str) -> str:
    """Return it as TOML, for all workers of `ground` on so many nodes.

    `exchange` are the lines of that table. There is one step more than those that are timed.
    """
    return f"""
        workers = {ground.workers // nodes}
        [network]
        name = "{ground.network}"
        classes = {CLASSES}
        [data]
        {_data(ground)}
        [train]
        batch = {ground.batch * ground.workers}
        steps = {ground.steps + 1}
        trace_steps = {ground.trace_steps}
        [learning_rate]
        base = 0.0001
        [placement]
        pin = {str(not ground.cores_are_shared).lower()}
        [backend]
        threads = {len(ground.groups[0])}
        [exchange]
        {exchange}
        [evaluation]
        every_epochs = 0
        [checkpoint]
        every_epochs = 0
        every_minutes = 0
        [preemption]
        signals = []
        """


def _data(ground: Ground) -> str:
    """Digits for networks that take images of one channel, synthetic images for the others."""
    side, _, channels = network_of(ground.network).input_shape
    if channels == 1:
        return f'name = "digits"\nside_pixels = {side}'
    return f"""name = "synthetic"
        side_pixels = {side}
        train_images = {ground.batch * ground.workers * _EPOCH_STEPS}
        test_images = {ground.batch}"""
