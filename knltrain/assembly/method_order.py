"""What methods are built from: an order for one, and the parts that several of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from knltrain.assembly.resolve import group_size_of
from knltrain.config import RunConfig
from knltrain.config.exchange_table import ExchangeConfig
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError
from knltrain.network.network import Network

if TYPE_CHECKING:
    from knltrain.assembly.factories import Kernels
    from knltrain.exchange.rules.outer_step import OuterOptimizer
    from knltrain.exchange.rules.rule import ExchangeRule
    from knltrain.exchange.strategies.method import Method, Moment

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class MethodContext:
    """What a method is built from; `learning_rate` takes the number of a step, from 0."""

    config: RunConfig
    workers: int
    network: Network
    kernels: Kernels
    learning_rate: Callable[[int], float]

    @property
    def exchange(self) -> ExchangeConfig:
        """The table of the configuration that says how workers come together."""
        return self.config.exchange


def groups_of(order: MethodContext) -> tuple[int, int]:
    """Workers of a group, and how many groups there are; `ConfigError` if they do not come out."""
    name, workers = order.exchange.method, order.workers
    if workers < 2:
        raise ConfigError(
            f"exchange.method = '{name}' with 1 worker: expected at least 2, to go in groups"
        )
    size = group_size_of(order.config, workers)
    if workers % size:
        raise ConfigError(
            f"exchange.group_size = {size}: {workers} workers do not go in groups of that size, "
            "expected a divisor"
        )
    return size, workers // size


def mean_rule(order: MethodContext) -> ExchangeRule:
    """The rule by which all locals become their mean."""
    from knltrain.exchange.rules.averaging import ModelAveraging

    return ModelAveraging(order.workers, order.kernels.elastic.synchronous_average)


def outer_step(order: MethodContext, optimizer: OuterOptimizer) -> Method:
    """Workers take over a center that moves by `optimizer`."""
    from knltrain.exchange.rules.outer_step import OuterStep

    return on_parameters(
        order, OuterStep(order.workers, optimizer, order.kernels.outer_step), after="step"
    )


def on_parameters(order: MethodContext, rule: ExchangeRule, after: Moment) -> Method:
    """A method that moves parameters by `rule`, as often and in the order that the facts say."""
    from knltrain.exchange.strategies.method import Method

    name = order.exchange.method
    schedule = METHODS[name].schedule
    assert schedule != "never"
    period = order.exchange.communication_period
    return Method(name, rule, "parameters", period, schedule, after)


def on_gradients(order: MethodContext, rule: ExchangeRule, period: int) -> Method:
    """A method that moves gradients by `rule`."""
    from knltrain.exchange.strategies.method import Method

    return Method(order.exchange.method, rule, "gradient", period)


def given(value: Value | None) -> Value:
    """A key that the method reads; RunConfig has filled it in."""
    assert value is not None
    return value
