"""Our workers as members; threads stand for processes here."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from knltrain.bench.exchange.member import WrongResult
from knltrain.bench.exchange.segment_member import SegmentMember
from knltrain.exchange.transports.segment import Segment


@pytest.fixture
def both():
    """Do something as rank 0 and as rank 1 at the same time, on two segments."""
    segments = [Segment.create(size, 2, "memfd", spares=True) for size in (1000, 70_000)]

    def hold(rank):
        return SegmentMember(rank).hold(
            [1000, 70_000], [os.dup(segment.fd) for segment in segments]
        )

    with ThreadPoolExecutor(2) as pool:
        held = list(pool.map(hold, range(2)))
        yield lambda work: list(pool.map(work, held)), segments
        list(pool.map(lambda each: each.close(), held))
    for segment in segments:
        segment.close()


def test_all_operations_are_right_and_leave_zeros(both):
    at_once, segments = both
    at_once(lambda held: held.check())
    for segment in segments:
        assert not segment.locals_.any()
        assert not segment.center.any()


def test_an_operation_exchanges_every_vector(both):
    at_once, segments = both
    for segment in segments:
        segment.locals_[:] = [[1], [3]]
    at_once(lambda held: held.operations["average"]())
    assert all(np.all(segment.locals_ == 2) for segment in segments)
    at_once(lambda held: held.meet())


def test_one_visit_is_that_of_the_first_worker_alone(both):
    at_once, segments = both
    for segment in segments:
        segment.locals_[:] = 4
    at_once(lambda held: held.operations["one visit"]())
    assert all(np.all(segment.center == 1) for segment in segments)
    assert all(np.all(segment.locals_ == [[3], [4]]) for segment in segments)
    at_once(lambda held: held.meet())


def test_wrong_arithmetic_is_refused(both):
    at_once, _ = both

    def check_another_rule(held):
        held.operations["sync_easgd"] = held.operations["average"]
        held.check()

    with pytest.raises(WrongResult, match=r"sync_easgd: 1000 of 1000 .* 1.5 instead of 0.75"):
        at_once(check_another_rule)
