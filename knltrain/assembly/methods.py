"""Builds the parts of a method from its definition (`knltrain.config.methods`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from knltrain.assembly.resolve import group_size_of, moving_rate_of
from knltrain.assembly.rules import RULES, MethodContext
from knltrain.config import RunConfig
from knltrain.config.methods import METHODS, MethodFacts
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.exchange.rules.rule import ExchangeRule
    from knltrain.exchange.strategies.method import Method
    from knltrain.exchange.strategies.strategy import Strategy


def build(context: MethodContext) -> Method:
    """The method that the configuration names."""
    facts = METHODS[context.exchange.method]
    if facts.levels is not None:
        return _on_two_levels(context, facts, *facts.levels)
    return _on_one_level(context, facts, context.exchange.communication_period)


def strategy_of(config: RunConfig) -> type[Strategy]:
    """The strategy class of the method that the configuration names."""
    from knltrain.exchange.strategies.strategy import strategy_named

    return strategy_named(METHODS[config.exchange.method].strategy)


def _on_one_level(context: MethodContext, facts: MethodFacts, period: int) -> Method:
    from knltrain.exchange.strategies.method import Method
    from knltrain.exchange.strategies.strategy import strategy_named
    from knltrain.network.layer_slices import statistic_parts

    chosen, strategy = context.exchange, strategy_named(facts.strategy)
    rule = RULES[facts.rule](context)
    rule.statistics = statistic_parts(context.network)
    if chosen.emulated_link_gbits is not None:
        rule = _over_link(context, rule)
    return Method(
        name=chosen.method,
        rule=rule,
        strategy=strategy,
        period=None if facts.schedule == "never" else period,
        schedule="synchronous" if facts.schedule == "never" else facts.schedule,
        after=strategy.after or rule.after,
        every_step_until=chosen.synchronous_steps or 0,
        **strategy.own_settings(chosen, context.network),
    )


def _on_two_levels(context: MethodContext, facts: MethodFacts, inner: str, outer: str) -> Method:
    from knltrain.exchange.strategies.method import Levels
    from knltrain.exchange.strategies.strategy import strategy_named

    chosen = context.exchange
    size, groups = groups_of(context)
    of_group, of_roots = replace(context, workers=size), replace(context, workers=groups)
    inside = _on_one_level(of_group, METHODS[inner], chosen.group_period or 1)
    outside = _on_one_level(of_roots, METHODS[outer], chosen.communication_period)
    return replace(
        outside, strategy=strategy_named(facts.strategy), levels=Levels(size, inside, outside)
    )


def groups_of(context: MethodContext) -> tuple[int, int]:
    """Workers of a group, and number of groups; `ConfigError` if they do not divide evenly."""
    name, workers = context.exchange.method, context.workers
    if workers < 2:
        raise ConfigError(
            f"exchange.method = '{name}' with 1 worker: expected at least 2, to go in groups"
        )
    size = group_size_of(context.config, workers)
    if workers % size:
        raise ConfigError(
            f"exchange.group_size = {size}: {workers} workers do not go in groups of that size, "
            "expected a divisor"
        )
    return size, workers // size


def _over_link(context: MethodContext, rule: ExchangeRule) -> ExchangeRule:
    """The rule, delayed by the link that is to be emulated."""
    from knltrain.exchange.rules.emulated_link import Link, SlowLink
    from knltrain.exchange.rules.rule import SynchronousRule

    chosen = context.exchange
    gbits = chosen.emulated_link_gbits
    assert gbits is not None
    of_all = strategy_of(context.config)
    if not of_all.emulates_links or not isinstance(rule, SynchronousRule):
        raise ConfigError(
            f"exchange.emulated_link_gbits = {gbits}: {chosen.method} cannot be emulated over a "
            "link; expected elastic or averaging workers that all exchange with one center, such "
            "as sync_easgd3 or original_easgd"
        )
    link = Link(gbits * 1e9 / 8, chosen.emulated_latency_us / 1e6)
    return SlowLink(rule, link, context.workers)


def doubts_about(config: RunConfig, workers: int) -> tuple[str, ...]:
    """Warnings about settings of the method that may not be stable: one sentence for each."""
    from knltrain.exchange.rules.rule import downpour_doubts, elastic_doubts

    facts = METHODS[config.exchange.method]
    size = group_size_of(config, workers) if "group_size" in facts.reads else None
    found = [] if size is None else _group_doubts(size, workers)
    if "moving_rate" in facts.reads:
        who = workers // (size or 1)
        rates = config.balance.moving_rates or (moving_rate_of(config, who),)
        return (*found, *elastic_doubts(sum(rates) / len(rates), who, config.learning_rate.base))
    if facts.rule in ("downpour", "averaged_downpour"):
        periods = config.balance.periods
        longest = max(periods) if isinstance(periods, tuple) else 0
        return tuple(downpour_doubts(longest or config.exchange.communication_period))
    return tuple(found)


def _group_doubts(size: int, workers: int) -> list[str]:
    """Warn if there is one level only."""
    if 1 < size < workers:
        return []
    what = "each worker is a group of its own" if size == 1 else "all workers are one group"
    return [
        f"exchange.group_size = {size} with {workers} workers: {what}; expected a divisor of the "
        "workers between these"
    ]
