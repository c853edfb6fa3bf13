"""How the exchanges of a run overlap with its computing."""

from __future__ import annotations

from knltrain.assembly.names import build_network
from knltrain.bench.predict.steps import method_of
from knltrain.config import RunConfig
from knltrain.cost_model.overlap import Overlap, by_parts, meanwhile
from knltrain.exchange.strategies.method import Method
from knltrain.network.layer_slices import layer_parts


def overlap_of(config: RunConfig) -> Overlap:
    """How the exchange of a run overlaps with its computing, both in the mean over its steps."""
    method = method_of(config)
    if not method.strategy.hears_of_parts:
        share = method.strategy.overlapped_share(method)
        return meanwhile(share, behind=hiding_share(method))
    network = build_network(config)
    own = method.strategy.own_settings(config.exchange, network)
    return by_parts(network, own.get("parts") or layer_parts(network))


def hiding_share(method: Method) -> float:
    """The share of all steps whose computing can hide an exchange.

    A push goes on until the next visit. A fragment has the steps of its delay, and centers of
    groups have those until the next exchange of their groups; else it is the step of the exchange.
    """
    if method.period is None or method.comes_alone:
        return 1.0
    steps = 1
    if method.stream is not None:
        steps = len(method.stream.fragments) * method.stream.delay
    elif method.levels is not None:
        steps = method.levels.inside.period or 1
    return min(1.0, steps / method.period)
