"""Strategies by the names of their classes, and what a class must be."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import knltrain.exchange
from knltrain.config.methods import METHODS
from knltrain.exchange.rules.averaging import GradientMean, ModelAveraging
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy, OverlappedPushStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.overlapped import OverlappedStrategy
from knltrain.exchange.strategies.strategy import Strategy, strategy_in, strategy_named
from knltrain.exchange.strategies.stream import Stream
from knltrain.exchange.strategies.streaming import StreamingStrategy
from knltrain.exchange.strategies.synchronous import MasterStrategy, SynchronousStrategy
from knltrain.exchange.transports.loopback import Loopback
from vectorized_ops.reference import elastic
from vectorized_ops.reference.elastic import synchronous_average

PULL = EASGD(0.3, elastic)
MEAN = ModelAveraging(1, elastic.synchronous_average)


@pytest.mark.parametrize(
    "method",
    [
        Method("m", PULL, SynchronousStrategy),
        Method("m", PULL, MasterStrategy),
        Method("m", PULL, OverlappedStrategy),
        Method("m", MEAN, StreamingStrategy, 4, stream=Stream((slice(0, 5),))),
        Method("m", PULL, AsynchronousStrategy, schedule="first_come"),
        Method("m", PULL, OverlappedPushStrategy, schedule="first_come", after="step"),
    ],
    ids=lambda method: method.strategy.__name__,
)
def test_workers_take_part_by_the_class_that_their_method_names(method: Method) -> None:
    part = strategy_in(method, Loopback(10, spares=method.strategy.needs_spares))
    assert type(part) is method.strategy
    part.exchange(0)
    part.settle()
    part.close()


PACKAGE = Path(next(iter(knltrain.exchange.__path__)))
NAMED = {facts.strategy for facts in METHODS.values()}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_strategy_is_found_by_its_name(name: str) -> None:
    found = strategy_named(name)
    assert issubclass(found, Strategy)
    assert f"{found.__module__.rpartition('.')[2]}.{found.__name__}" == name


def test_every_strategy_is_named_by_a_method() -> None:
    named = {strategy_named(name) for name in NAMED}
    whole = {each for each in _classes() if issubclass(each, Strategy) and _is_whole(each)}
    assert named == whole


def test_classes_are_abstract_or_final() -> None:
    """One that could be made, and is a base of another, has two reasons to change."""
    classes = _classes()
    bases = {base for each in classes for base in each.__mro__[1:] if base in classes}
    assert sorted(base.__qualname__ for base in bases if _is_whole(base)) == []
    final = {each for each in classes if getattr(each, "__final__", False)}
    assert not final & bases


def _is_whole(kind: type) -> bool:
    return not inspect.isabstract(kind) and kind.__name__ != "StrategyTraits"


def _classes() -> set[type]:
    """The classes of the package, but errors, dataclasses' helpers and dictionaries' types."""
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(("knltrain.exchange", *path.relative_to(PACKAGE).with_suffix("").parts))
        module = import_module(name.removesuffix(".__init__"))
        found |= {
            each
            for each in vars(module).values()
            if inspect.isclass(each) and each.__module__ == module.__name__
        }
    return found


RULES = (ModelAveraging(1, synchronous_average), GradientMean(1, synchronous_average))
START = np.arange(4, dtype=np.float32)


def test_the_vector_that_a_method_moves_is_the_transports_own() -> None:
    for rule in RULES:
        transport = Loopback(4)
        part = strategy_in(Method("m", rule, SynchronousStrategy), transport)
        moved, other = part.parameters, part.gradient
        if rule.moves == "gradient":
            moved, other = other, moved
        assert moved is transport.local
        assert other is not transport.local
        assert part.model is (transport.center if rule.moves == "parameters" else part.parameters)
        part.start_from(START)
        assert part.parameters.tolist() == part.model.tolist() == START.tolist()
        assert part.state() == {}
        part.close()
        assert part.parameters.size == part.gradient.size == part.model.size == 0
