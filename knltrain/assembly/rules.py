"""Builds the rules of methods from a configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from knltrain.assembly.resolve import moving_rate_of
from knltrain.config import RunConfig
from knltrain.config.exchange_table import ExchangeConfig
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.assembly.factories import Kernels
    from knltrain.exchange.rules.rule import ExchangeRule, SynchronousRule
    from knltrain.network.layer_slices import PackedLayers

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class MethodContext:
    """The input of a method's factory; `learning_rate` takes the number of a step, from 0.

    `workers` are those that exchange with one center: all, those of a group, or the roots.
    """

    config: RunConfig
    workers: int
    network: PackedLayers
    kernels: Kernels
    learning_rate: Callable[[int], float]

    @property
    def exchange(self) -> ExchangeConfig:
        """The table `[exchange]` of the configuration."""
        return self.config.exchange


def elastic(context: MethodContext) -> ExchangeRule:
    """Elastic force between workers and center."""
    from knltrain.exchange.rules.easgd import EASGD

    return EASGD(moving_rate_of(context.config, context.workers), context.kernels.elastic)


def downpour(context: MethodContext) -> ExchangeRule:
    """Workers push the change of their parameters, and fetch the center."""
    from knltrain.exchange.rules.downpour import Downpour, MeanProgress

    chosen = context.exchange
    momentum, nesterov = chosen.center_momentum or 0.0, bool(chosen.center_nesterov)
    of_statistics = MeanProgress(context.workers, 2 if momentum else 1)
    return Downpour(context.kernels.downpour, momentum, nesterov, of_statistics)


def averaged_downpour(context: MethodContext) -> ExchangeRule:
    """As `downpour`; the model is an average of the center over time."""
    from knltrain.exchange.rules.averaged_center import AveragedCenter

    rate = context.exchange.averaging_rate
    return AveragedCenter(downpour(context), rate, context.kernels.averages)


def averaged_sgd(context: MethodContext) -> ExchangeRule:
    """One worker; the model is an average of its parameters over time."""
    if context.workers != 1:
        name = context.exchange.method
        raise ConfigError(
            f"exchange.method = '{name}' with {context.workers} workers in all: expected workers = "
            f"1, or '{name.removesuffix('asgd')}adownpour', which is the same for several"
        )
    return averaged_downpour(context)


def model_mean(context: MethodContext) -> SynchronousRule:
    """Workers replace their parameters by the mean."""
    from knltrain.exchange.rules.averaging import ModelAveraging

    return ModelAveraging(context.workers, context.kernels.elastic.synchronous_model_average)


def gradient_mean(context: MethodContext) -> SynchronousRule:
    """Every worker steps by the mean of all gradients."""
    from knltrain.exchange.rules.averaging import GradientMean

    return GradientMean(context.workers, context.kernels.elastic.synchronous_average)


def accumulated_gradient(context: MethodContext) -> ExchangeRule:
    """A master steps by the mean of the gradients that all workers have added up."""
    from knltrain.exchange.rules.accumulated_gradient import AccumulatedGradient

    return AccumulatedGradient(context.workers)


def gradient_sum(context: MethodContext) -> ExchangeRule:
    """Every worker steps by the sum of all gradients."""
    from knltrain.exchange.rules.averaging import GradientSum

    kernel = context.kernels.elastic.synchronous_sum
    return GradientSum(context.workers, kernel, gradient_mean(context))


def slow_momentum(context: MethodContext) -> ExchangeRule:
    """Workers take a center that moves by slow momentum."""
    from knltrain.exchange.rules import outer_step

    chosen = context.exchange
    rate, momentum = _given(chosen.center_learning_rate), _given(chosen.center_momentum)
    optimizer = outer_step.slow_momentum(rate, momentum, context.learning_rate)
    kernel = context.kernels.outer_step
    return outer_step.OuterStep(context.workers, optimizer, kernel, model_mean(context))


def outer_descent(context: MethodContext) -> ExchangeRule:
    """Workers take a center that moves by an optimizer of its own."""
    from knltrain.exchange.rules import outer_step

    chosen = context.exchange
    optimizer = outer_step.gradient_descent(
        _given(chosen.center_learning_rate),
        chosen.center_momentum or 0.0,
        bool(chosen.center_nesterov),
    )
    kernel = context.kernels.outer_step
    return outer_step.OuterStep(context.workers, optimizer, kernel, model_mean(context))


RULES: dict[str, Callable[[MethodContext], ExchangeRule]] = {
    "accumulated_gradient": accumulated_gradient,
    "averaged_downpour": averaged_downpour,
    "averaged_sgd": averaged_sgd,
    "downpour": downpour,
    "elastic": elastic,
    "gradient_mean": gradient_mean,
    "gradient_sum": gradient_sum,
    "model_mean": model_mean,
    "outer_descent": outer_descent,
    "slow_momentum": slow_momentum,
}
"""What `MethodFacts.rule` names."""


def _given(value: Value | None) -> Value:
    """A key that the method reads; RunConfig guarantees it."""
    assert value is not None
    return value
