"""The predicted step of each method at some numbers of ranks, by α, β and γ; nothing is measured.

What a method exchanges, how often, and what of it computing hides is that of the method itself
(`knltrain.exchange.strategies`). The formulas are those of `knltrain.cost_model.collectives`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from knltrain.assembly.names import network_size
from knltrain.bench.cost_model.all_reduces import AllReduce
from knltrain.bench.methods.entrants import entrants
from knltrain.bench.predict.overlap import overlap_of
from knltrain.bench.predict.steps import method_of
from knltrain.config import RunConfig
from knltrain.cost_model.collectives import (
    broadcast,
    levels,
    one_after_another,
    pipelined_tree,
    shared_center,
    tree,
)
from knltrain.cost_model.line import Link
from knltrain.errors import ConfigError
from knltrain.exchange.strategies.asynchronous import InTurnStrategy
from knltrain.exchange.strategies.hierarchical import HierarchicalStrategy
from knltrain.exchange.strategies.layer_trees import LayerTreeStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.parameter_server import ParameterServerStrategy
from knltrain.exchange.strategies.star import StarStrategy
from knltrain.exchange.strategies.synchronous import MasterStrategy
from knltrain.exchange.tree_exchange.trees import best_branches
from vectorized_ops.shapes import FLOAT_BYTES


@final
@dataclass(frozen=True, slots=True)
class Ground:
    """Ranks behind a link each, with an all-reduce; a center lies on so many `servers` of them.

    They are all ranks for None.
    """

    link: Link
    all_reduce: AllReduce
    servers: int | None = None


class _Exchange(NamedTuple):
    """Seconds of one exchange, and the least time between two of a worker: links are busy then."""

    formula: str
    seconds: float
    least: float = 0.0


def predicted_method_steps(
    network: str,
    methods: Sequence[str],
    ranks: Sequence[int],
    computing_seconds: float,
    ground: Ground,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return rows, as JSON, of each method and number of ranks, and reasons of those without.

    A row has the `formula` of an exchange, its seconds in the mean over steps (`exchange_seconds`),
    and the `step_seconds` with what of it is exposed. Settings are the defaults of each method.
    Raises ConfigError for unknown methods.
    """
    rows, failures = list[dict[str, Any]](), dict[str, str]()
    for each in entrants(methods, 2)[1:]:
        for count in ranks:
            try:
                found = _alone(computing_seconds)
                if count > 1:
                    config = _run(network, each.method, count)
                    found = _row(config, computing_seconds, ground)
            except ConfigError as error:
                failures[each.method] = str(error)
            else:
                rows.append({"method": each.method, "ranks": count, **found})
    return rows, failures


def _run(network: str, method: str, ranks: int) -> RunConfig:
    return RunConfig.model_validate(
        {
            "workers": ranks,
            "network": {"name": network},
            "data": {"name": "random"},
            "train": {"steps": 1, "batch": ranks},
            "learning_rate": {"base": 0.01},
            "exchange": {"method": method},
        }
    )


def _row(config: RunConfig, computing: float, ground: Ground) -> dict[str, Any]:
    method, size = method_of(config), FLOAT_BYTES * network_size(config)
    ranks, period = config.total_workers, method.period
    if period is None:
        return _alone(computing)
    inside = 0.0
    if method.levels is None:
        found = _exchange(method, size, ranks, computing, ground)
    else:
        group, own = method.group_size, method.levels.inside
        found = _exchange(method.levels.outside, size, ranks // group, computing, ground)
        within = _exchange(own, size, group, computing, ground)
        inside = within.seconds / (own.period or 1)
        if issubclass(method.strategy, HierarchicalStrategy):
            inside += broadcast(ground.link, size, group) / period
        found = found._replace(formula=f"{within.formula} in groups, {found.formula}")
    exposed = overlap_of(config).exposed(found.seconds / period, computing)
    step = max(computing + inside + exposed, found.least / period)
    exchange = inside + found.seconds / period
    return {"formula": found.formula, "exchange_seconds": exchange, "step_seconds": step}


def _alone(computing: float) -> dict[str, Any]:
    return {"formula": "none", "exchange_seconds": 0.0, "step_seconds": computing}


def _exchange(
    method: Method, size: float, ranks: int, computing: float, ground: Ground
) -> _Exchange:
    """One exchange of all parameters among so many ranks, without what overlaps."""
    link, strategy = ground.link, method.strategy
    if ranks == 1:
        return _Exchange("none", 0.0)
    if issubclass(strategy, MasterStrategy):
        return _Exchange("tree", tree(link, size, ranks))
    if issubclass(strategy, StarStrategy):
        return _Exchange("one after another", one_after_another(link, size, ranks))
    if issubclass(strategy, LayerTreeStrategy):
        return _Exchange("pipelined trees", _trees(method, link, size, ranks))
    servers = min(ground.servers or ranks, ranks)
    at_once = shared_center(link, size, ranks, servers=servers, add=link.gamma)
    if issubclass(strategy, ParameterServerStrategy):
        return _Exchange("shared center, master", at_once + 2 * link.message(size))
    if method.comes_alone:
        return _visit(method, link, size, ranks, computing, at_once)
    parts = method.parts if method.stream is None else method.stream.fragments
    sizes = [(part.stop - part.start) * FLOAT_BYTES if part.stop else size for part in parts]
    return _Exchange("all-reduce", sum(ground.all_reduce(each, ranks) for each in sizes))


def _visit(
    method: Method, link: Link, size: float, ranks: int, computing: float, at_once: float
) -> _Exchange:
    """A read and a push, which wait for those of others where the center's links are busy."""
    alone, period = one_after_another(link, size, 2), method.period or 1
    if issubclass(method.strategy, InTurnStrategy):
        in_turn = (period - 1) * computing + ranks * (computing + alone)
        return _Exchange("one after another, with computing", alone, in_turn)
    if method.schedule == "round_robin":
        return _Exchange("one after another", alone, ranks * alone)
    return _Exchange("shared center", alone, at_once - 2 * link.alpha)


def _trees(method: Method, link: Link, size: float, ranks: int) -> float:
    """Layers up a tree of sums and down one of copies, one after another."""
    layers, (up, down) = len(method.layers), method.branches
    adding = Link(link.alpha, link.beta + link.gamma)
    return sum(
        pipelined_tree(over, size, ranks, children=min(children, ranks - 1), pieces=layers)
        for over, children in (
            (adding, up or levels(ranks)),
            (link, down or best_branches(ranks)),
        )
    )
