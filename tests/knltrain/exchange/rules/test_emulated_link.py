"""Exchanges over an emulated link, by a clock that only sleeping and the rule move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from knltrain.exchange.rules import emulated_link
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.emulated_link import Link, SlowLink
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.transports.loopback import Loopback
from vectorized_ops.reference import elastic

LINK = Link(bytes_per_second=4.0, latency_seconds=100.0)
"""A value a second."""


class Clock:
    """A time that passes by sleeping, each time half a second too long."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds + 0.5


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(emulated_link, "time", clock)
    return clock


def over_link(workers: int) -> SlowLink:
    return SlowLink(EASGD(0.25, elastic), LINK, workers)


def vectors(size: int, rows: int = 1) -> tuple[np.ndarray, ...]:
    local, center = np.ones((rows, size), np.float32), np.zeros(size, np.float32)
    return local, center, np.zeros((0, size), np.float32)


def test_who_comes_alone_takes_and_gives_each_value(clock: Clock) -> None:
    rule, (local, center, kept) = over_link(3), vectors(10)
    rule.prepare(0)
    rule.visit(local[0], center, kept, np.zeros(10, np.float32))
    assert clock.now == 1000 + 2 * 100 + 2 * 10 + 0.5


def test_a_visit_by_pieces_has_its_latency_once_and_sleeps_no_longer_in_all(clock: Clock) -> None:
    rule, (local, center, kept) = over_link(3), vectors(10)
    rule.prepare(0)
    for piece in (slice(0, 4), slice(4, 8), slice(8, 10)):
        rule.visit(local[0][piece], center[piece], kept[:, piece], np.zeros(10, np.float32)[piece])
    assert clock.now == 1000 + 2 * 100 + 2 * 10 + 0.5
    rule.prepare(1)
    rule.visit(local[0], center, kept, np.zeros(10, np.float32))
    assert clock.now == 1000 + 2 * (2 * 100 + 2 * 10 + 0.5)


def test_workers_that_share_an_exchange_pass_their_parts(clock: Clock) -> None:
    """2 n (P − 1) / P values: of 40 by 4 workers 60, for the stripe of 10 that one of them does."""
    rule, (locals_, center, kept) = over_link(4), vectors(10, rows=4)
    rule.prepare(0)
    rule.synchronise(locals_, center, kept)
    assert clock.now == 1000 + 2 * 100 + 60 + 0.5


@pytest.mark.parametrize(("workers", "levels"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (16, 4)])
def test_a_master_is_reached_along_a_tree(clock: Clock, workers: int, levels: int) -> None:
    rule, (local, center, kept) = over_link(workers), vectors(10)
    rule.prepare(0)
    rule.contribute(local[0], center, np.zeros(10, np.float32))
    rule.absorb(center, kept, np.zeros(10, np.float32))
    rule.follow(local[0], center, np.zeros(10, np.float32))
    assert clock.now == 1000 + levels * (2 * 100 + 2 * 10) + (0.5 if levels else 0)


def test_a_rule_that_takes_longer_than_the_link_is_not_held_up(clock: Clock) -> None:
    class Slow(SynchronousRule):
        def contribute(self, *given: Any) -> None: ...

        def absorb(self, *given: Any) -> None: ...

        def follow(self, *given: Any) -> None: ...

        def synchronise(self, *given: Any) -> None:
            clock.now += 5000.0

    rule = SlowLink(Slow(), LINK, 2)
    assert isinstance(rule, SynchronousRule)
    rule.prepare(0)
    rule.synchronise(*vectors(10, rows=2))
    assert clock.now == 6000.0


def test_the_result_is_that_of_the_rule(clock: Clock) -> None:
    def exchanged(rule: SynchronousRule) -> tuple[list[float], list[float]]:
        transport = Loopback(3, spares=True)
        transport.start_from(np.array([1, 2, 3], np.float32))
        transport.local[:] = 5
        rule.prepare(0)
        transport.exchange(rule)
        transport.visit(rule, np.zeros(3, np.float32), "first_come")
        transport.exchange_at_master(rule)
        return transport.local.tolist(), transport.center.tolist()

    assert exchanged(over_link(1)) == exchanged(EASGD(0.25, elastic))
