"""From the facts about a method (`knltrain.config.methods`) and a configuration to its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from knltrain.assembly.method_order import (
    MethodContext,
    given,
    groups_of,
    mean_rule,
    on_gradients,
    on_parameters,
    outer_step,
)
from knltrain.assembly.resolve import group_size_of, moving_rate_of
from knltrain.config import RunConfig
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.exchange.strategies.method import Method

LAYERWISE_PART_FLOATS = 2**20
"""Smaller layers go together with those that are done before them: each exchange has its cost."""

Build = Callable[[MethodContext], "Method"]


def elastic(order: MethodContext) -> Method:
    """Workers and center pull on each other."""
    from knltrain.exchange.rules.easgd import EASGD

    rule = EASGD(moving_rate_of(order.config, order.workers), order.kernels.elastic)
    return on_parameters(order, rule, after="gradient")


def elastic_at_master(order: MethodContext) -> Method:
    """As `elastic`, where one worker moves the center alone."""
    return replace(elastic(order), at_master=True)


def elastic_meanwhile(order: MethodContext) -> Method:
    """As `elastic`, while the gradient is computed."""
    return replace(elastic(order), overlap="gradient")


def elastic_in_turn(order: MethodContext) -> Method:
    """As `elastic`, by workers that compute their gradients in turn, too."""
    return replace(elastic(order), computes_in_turn=True)


def seasgd(order: MethodContext) -> Method:
    """As `elastic`, after the step, and the center absorbs what it is given meanwhile."""
    return replace(elastic(order), after="step", overlap="writes")


def shmcaffe_h(order: MethodContext) -> Method:
    """Synchronous SGD in groups, whose roots come to the center by `seasgd`."""
    size, groups = groups_of(order)
    inside = on_gradients(order, mean_rule(replace(order, workers=size)), period=1)
    return replace(seasgd(replace(order, workers=groups)), inside=inside, group_size=size)


def downpour(order: MethodContext) -> Method:
    """Workers push what they have moved by, and take over the center."""
    from knltrain.exchange.rules.downpour import Downpour

    chosen = order.exchange
    momentum, nesterov = chosen.center_momentum or 0.0, bool(chosen.center_nesterov)
    return on_parameters(order, Downpour(order.kernels.downpour, momentum, nesterov), after="step")


def averaged_downpour(order: MethodContext) -> Method:
    """As `downpour`, for the sake of an average of the center over time."""
    from knltrain.exchange.rules.averaged_center import AveragedCenter

    method = downpour(order)
    rule = AveragedCenter(method.rule, order.exchange.averaging_rate, order.kernels.averages)
    return replace(method, rule=rule)


def averaged_sgd(order: MethodContext) -> Method:
    """One worker, for the sake of an average of its parameters over time."""
    if order.workers != 1:
        name = order.exchange.method
        raise ConfigError(
            f"exchange.method = '{name}' with {order.workers} workers: expected workers = 1, or "
            f"'{name.removesuffix('asgd')}adownpour', which is the same for several"
        )
    return averaged_downpour(order)


def averaging(order: MethodContext) -> Method:
    """Workers take over their mean."""
    method = on_parameters(order, mean_rule(order), after="step")
    return replace(method, every_step_until=order.exchange.synchronous_steps or 0)


def hierarchical(order: MethodContext) -> Method:
    """Groups take over their mean, and now and then the mean of all."""
    size, groups = groups_of(order)
    inside = averaging(replace(order, workers=size))
    period = given(order.exchange.group_period)
    return replace(
        averaging(replace(order, workers=groups)),
        inside=replace(inside, period=period),
        group_size=size,
    )


def hierarchical_elastic(order: MethodContext) -> Method:
    """As `elastic` in groups, whose centers do the same with a center of all."""
    size, groups = groups_of(order)
    inside = elastic(replace(order, workers=size))
    return replace(
        elastic(replace(order, workers=groups)),
        inside=replace(inside, period=given(order.exchange.group_period)),
        group_size=size,
        overlap="gradient",
        through_centers=True,
    )


def slowmo(order: MethodContext) -> Method:
    """Workers take over a center that moves by slow momentum."""
    from knltrain.exchange.rules.outer_step import slow_momentum

    chosen = order.exchange
    rate, momentum = given(chosen.center_learning_rate), given(chosen.center_momentum)
    return outer_step(order, slow_momentum(rate, momentum, order.learning_rate))


def diloco(order: MethodContext) -> Method:
    """Workers take over a center that moves by an optimizer of its own."""
    from knltrain.exchange.rules.outer_step import gradient_descent

    chosen = order.exchange
    return outer_step(
        order,
        gradient_descent(
            given(chosen.center_learning_rate),
            chosen.center_momentum or 0.0,
            bool(chosen.center_nesterov),
        ),
    )


def streaming_diloco(order: MethodContext) -> Method:
    """As `diloco`, one fragment after another, while more steps are taken."""
    from knltrain.exchange.strategies.method import Stream
    from knltrain.network.layer_slices import fragments

    chosen = order.exchange
    stream = Stream(
        fragments(order.network, given(chosen.fragments)),
        given(chosen.delay_steps),
        given(chosen.mixing),
    )
    return replace(diloco(order), stream=stream)


def sync_sgd(order: MethodContext) -> Method:
    """Every worker steps by the mean of all gradients."""
    from knltrain.exchange.rules.averaging import GradientMean

    rule = GradientMean(order.workers, order.kernels.elastic.synchronous_average)
    return on_gradients(order, rule, order.exchange.communication_period)


def layerwise_sgd(order: MethodContext) -> Method:
    """As `sync_sgd`, a layer's gradient after another, while those before it are computed."""
    from knltrain.network.layer_slices import layer_parts, of_least_size

    parts = of_least_size(layer_parts(order.network), LAYERWISE_PART_FLOATS)
    return replace(sync_sgd(order), parts=parts, overlap="backward")


def along_trees(order: MethodContext) -> Method:
    """As `sync_sgd`, a layer after another along trees, while those before it are computed."""
    from knltrain.network.layer_slices import layer_sizes

    return replace(sync_sgd(order), overlap="backward", trees=layer_sizes(order.network))


def core_groups(order: MethodContext) -> Method:
    """Every worker steps by the sum of all gradients."""
    from knltrain.exchange.rules.averaging import GradientSum

    rule = GradientSum(order.workers, order.kernels.elastic.synchronous_sum)
    return on_gradients(order, rule, order.exchange.communication_period)


def no_exchange(order: MethodContext) -> Method:
    """Every worker for itself; an evaluation then measures each model on its worker's share."""
    return replace(sync_sgd(order), period=None)


BUILDERS: dict[str, Build] = {
    "sync_easgd": elastic,
    "sync_easgd1": elastic_at_master,
    "sync_easgd2": elastic,
    "sync_easgd3": elastic_meanwhile,
    "original_easgd": elastic,
    "original_easgd_star": elastic_in_turn,
    "async_easgd": elastic,
    "async_measgd": elastic,
    "hogwild_easgd": elastic,
    "async_sgd": downpour,
    "async_msgd": downpour,
    "hogwild_sgd": downpour,
    "hierarchical_easgd": hierarchical_elastic,
    "core_groups": core_groups,
    "easgd": elastic,
    "eamsgd": elastic,
    "downpour": downpour,
    "mdownpour": downpour,
    "adownpour": averaged_downpour,
    "mvadownpour": averaged_downpour,
    "asgd": averaged_sgd,
    "mvasgd": averaged_sgd,
    "seasgd": seasgd,
    "shmcaffe_h": shmcaffe_h,
    "local_sgd": averaging,
    "post_local_sgd": averaging,
    "hierarchical_sgd": hierarchical,
    "slowmo": slowmo,
    "diloco": diloco,
    "streaming_diloco": streaming_diloco,
    "sync_sgd": sync_sgd,
    "layerwise_sgd": layerwise_sgd,
    "caffegpi": along_trees,
    "none": no_exchange,
}
"""How each of `METHODS` is composed."""


def build(order: MethodContext) -> Method:
    """The method that the configuration names, exchanged as a whole or layer by layer."""
    from knltrain.network.layer_slices import layer_parts

    method = _over_link(order, BUILDERS[order.exchange.method](order))
    if order.exchange.packing == "packed" or method.trees:  # each layer goes by itself there
        return method
    if method.inside is not None:
        raise ConfigError(
            f"exchange.packing = 'per_layer': expected 'packed', {method.name} goes in groups"
        )
    return replace(method, parts=layer_parts(order.network))


def _over_link(order: MethodContext, method: Method) -> Method:
    """The method over the link that is to be emulated, if one is."""
    from knltrain.exchange.rules.emulated_link import Link, SlowLink
    from knltrain.exchange.rules.rule import SynchronousRule

    gbits = order.exchange.emulated_link_gbits
    if gbits is None:
        return method
    rule = method.rule
    elsewhere = method.inside is not None or method.overlap == "writes" or bool(method.trees)
    if elsewhere or not isinstance(rule, SynchronousRule):
        raise ConfigError(
            f"exchange.emulated_link_gbits = {gbits}: {method.name} cannot be emulated over a "
            "link; expected elastic or averaging workers that all exchange with one center, such "
            "as sync_easgd3 or original_easgd"
        )
    link = Link(gbits * 1e9 / 8, order.exchange.emulated_latency_us / 1e6)
    return replace(method, rule=SlowLink(rule, link, order.workers))


def doubts_about(config: RunConfig, workers: int) -> tuple[str, ...]:
    """What may not be stable about the method's settings: one sentence for each."""
    from knltrain.exchange.rules.stability import downpour_doubts, elastic_doubts

    facts = METHODS[config.exchange.method]
    size = group_size_of(config, workers) if "group_size" in facts.reads else None
    found = [] if size is None else _group_doubts(size, workers)
    if "moving_rate" in facts.reads:
        who = workers // (size or 1)
        rate = moving_rate_of(config, who)
        return (*found, *elastic_doubts(rate, who, config.learning_rate.base))
    if BUILDERS[facts.name] in (downpour, averaged_downpour):
        return tuple(downpour_doubts(config.exchange.communication_period))
    return tuple(found)


def _group_doubts(size: int, workers: int) -> list[str]:
    """Tell where there is one level only."""
    if 1 < size < workers:
        return []
    what = "each worker is a group of its own" if size == 1 else "all workers are one group"
    return [
        f"exchange.group_size = {size} with {workers} workers: {what}; expected a divisor of the "
        "workers between these"
    ]
