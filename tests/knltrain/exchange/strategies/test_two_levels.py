from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from knltrain.clocks import ACCUMULATE, PULL_LOCAL, READ_CENTER
from knltrain.errors import ConfigError
from knltrain.exchange.rules.averaging import GradientMean, ModelAveraging
from knltrain.exchange.rules.downpour import Downpour
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy, OverlappedPushStrategy
from knltrain.exchange.strategies.hierarchical import HierarchicalStrategy
from knltrain.exchange.strategies.hierarchical_centers import CenterHierarchyStrategy
from knltrain.exchange.strategies.method import Levels, Method, SegmentNeed
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.loopback import Loopback
from knltrain.timeline import Timeline
from vectorized_ops.reference import downpour, elastic
from vectorized_ops.reference.elastic import synchronous_average

MEAN = ModelAveraging(1, synchronous_average)
PULL = EASGD(0.5, elastic)


def grouped(outside: Method, inside: Method) -> Method:
    return replace(outside, strategy=HierarchicalStrategy, levels=Levels(2, inside, outside))


def test_segments_are_those_of_groups_and_of_their_roots() -> None:
    plain = Method("sync_easgd", PULL, SynchronousStrategy)
    behind = Method("seasgd", PULL, OverlappedPushStrategy, 1, "first_come", "step")
    both = grouped(behind, plain)
    assert plain.strategy.segments(plain, 4, 1) == (SegmentNeed(4, 1, False),)
    assert plain.strategy.segments(plain, 4, 2) == (SegmentNeed(4, 2, False),)
    of_groups = (SegmentNeed(2, 1, False),) * 2
    on_one, on_two = (both.strategy.segments(both, 4, nodes) for nodes in (1, 2))
    assert on_one == (*of_groups, SegmentNeed(2, 1, False))
    assert on_two == (*of_groups, SegmentNeed(2, 2, True))


def test_groups_meet_when_their_workers_do() -> None:
    inside = Method("inside", MEAN, SynchronousStrategy, 3, after="step")
    outside = Method("h", MEAN, SynchronousStrategy, 8, after="step")
    with pytest.raises(ConfigError, match=r"period = 8: expected a multiple of .*period = 3"):
        grouped(outside, inside)


def test_what_goes_on_and_what_is_sent_are_those_of_the_outer_level() -> None:
    plain = Method("m", MEAN, SynchronousStrategy, after="step")
    behind = Method("m", PULL, OverlappedPushStrategy, 1, "first_come", "step")
    follows = Method("m", Downpour(downpour), AsynchronousStrategy, 1, "first_come", "step")
    found = [
        (
            method.strategy.overlaps(method),
            method.strategy.overlapped_share(method),
            method.strategy.sent_bytes(method, 100),
        )
        for method in (grouped(outside, plain) for outside in (plain, behind, follows))
    ]
    assert found == [(False, 0.0, 100), (True, 0.5, 100), (False, 0.0, 150)]
    behind = grouped(behind, plain)
    assert behind.strategy.sent_bytes(behind, 100, 60) == 100
    follows = grouped(follows, plain)
    assert follows.strategy.sent_bytes(follows, 100, 60) == 160
    centers = replace(grouped(plain, plain), strategy=CenterHierarchyStrategy)
    assert centers.strategy.overlaps(centers)
    assert centers.strategy.overlapped_share(centers) == 1.0


def test_a_root_marks_its_visits_and_the_others_have_none() -> None:
    inside = Method("inside", GradientMean(1, synchronous_average), SynchronousStrategy)
    method = grouped(Method("h", PULL, OverlappedPushStrategy, 1, "first_come", "step"), inside)
    outside, own, beside = Loopback(8), Timeline(16), Timeline(16)
    root = strategy_in(method, GroupedTeam(0, 1, Loopback(8), outside, outside.center))
    assert root.marks_visits
    root.start_from(np.ones(8, np.float32))
    root.observe(own, beside)
    root.gradient_ready(0)
    root.stepped(0)
    root.settle()
    assert own.take().numbers.tolist() == [READ_CENTER, PULL_LOCAL]
    assert beside.take().numbers.tolist() == [ACCUMULATE]
    root.close()
    other = strategy_in(method, GroupedTeam(0, 1, Loopback(8), None, np.zeros(8, np.float32)))
    other.observe(own, beside)
    assert not own.take().numbers.size
    other.close()
