from __future__ import annotations

from collections.abc import Callable

import numpy as np

from knltrain.communication.collectives import GroupSegment
from knltrain.communication.collectives.channel import Channel
from knltrain.communication.collectives.layout import RING_BYTES

ParameterGroups = Callable[[int], list[GroupSegment]]


def test_bytes_arrive_in_order_round_and_round(segments: ParameterGroups) -> None:
    first, second = segments(2)
    out, into = Channel(first, 0, 1), Channel(second, 0, 1)
    rng = np.random.default_rng(1)
    given = rng.integers(0, 256, 3 * RING_BYTES + 11, np.uint8)
    got = np.zeros_like(given)
    sent = taken = 0
    while taken < given.size:
        size = min(int(rng.integers(0, RING_BYTES)), given.size - sent)
        sent += out.push(given.ctypes.data + sent, size)
        size = min(int(rng.integers(0, RING_BYTES)), given.size - taken)
        taken += into.pull(got.ctypes.data + taken, size)
    assert np.array_equal(given, got)


def test_full_and_empty_rings_let_nothing_through(segments: ParameterGroups) -> None:
    segment = segments(2)[0]
    channel, other = Channel(segment, 0, 1), Channel(segment, 1, 0)
    given = np.ones(RING_BYTES + 1, np.uint8)
    assert channel.push(given.ctypes.data, given.size) == RING_BYTES
    assert channel.push(given.ctypes.data, 1) == 0
    assert other.pull(given.ctypes.data, 1) == 0
