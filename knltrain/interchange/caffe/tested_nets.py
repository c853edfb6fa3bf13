"""Nets that a solver tests beside the one that it trains: here they must compute the same."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.net import CaffeNet
from knltrain.network.layers import Layer

_OF_TRAINING: Final = {
    *("initialiser", "bias_value", "initial_scale", "momentum", "inputs"),
    *("weights_multipliers", "bias_multipliers", "scale_multipliers", "shift_multipliers"),
}
"""Settings that change nothing in tests."""


def check_test_net(trained: CaffeNet, tested: CaffeNet, where: str) -> None:
    """Refuse a test net whose logits are others than those of the net that is trained.

    ConfigError, which names the first layer that differs; `where` is the field of the solver.
    """
    ours, theirs = (_evaluated(each) for each in (trained, tested))
    for mine, other in zip(ours, theirs, strict=False):
        if mine != other:
            raise ConfigError(
                f"{where}: its layer '{other[0]}' is another than '{mine[0]}' "
                f"({trained.places[mine[0]]}): expected the net that is trained, as knltrain tests "
                "what it trains"
            )
    if len(ours) != len(theirs):
        raise ConfigError(
            f"{where}: it has {len(theirs)} layers, the net that is trained {len(ours)}: expected "
            "the same, as knltrain tests what it trains"
        )


def _evaluated(net: CaffeNet) -> list[tuple[str, str, tuple[str, ...], dict[str, Any]]]:
    """Name, class, inputs and settings of each layer that evaluation needs."""
    network = net.network
    return [
        (each.name, type(each).__name__, network.inputs_of(each), _settings(each))
        for each in network.needed_for(network.outputs[:1])
    ]


def _settings(layer: Layer) -> dict[str, Any]:
    described: Any = layer
    names = {each.name for each in fields(described)} - _OF_TRAINING
    return {name: getattr(layer, name) for name in names}
