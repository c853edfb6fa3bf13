from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from knltrain.communication.collectives import GroupSegment
from knltrain.communication.collectives.channel import Channel
from knltrain.communication.collectives.layout import RING_BYTES
from knltrain.communication.collectives.message import ANY_RANK, Incoming, Outgoing, Request

ParameterGroups = Callable[[int], list[GroupSegment]]


def request(array: np.ndarray, rank: int = 0, tag: int = 5) -> Request:
    return Request(rank, tag, int(array.ctypes.data), array.nbytes, lambda *_: None, 60.0)


@pytest.mark.parametrize("size", [0, 10, 3 * RING_BYTES])
@pytest.mark.parametrize("is_wanted", [True, False])
def test_message_arrives_piece_by_piece(
    segments: ParameterGroups, size: int, is_wanted: bool
) -> None:
    segment = segments(2)[0]
    channel = Channel(segment, 0, 1)
    given = np.arange(size, dtype=np.uint8)
    got = np.zeros(size, np.uint8)
    message, found = Outgoing(request(given)), Incoming(0)
    assert not found.read_header(channel)
    while not found.is_done:
        message.advance(channel)
        if not found.has_header:
            found.read_header(channel)
            found.request = request(got) if is_wanted else None
        found.advance(channel)
    assert message.is_done
    assert (found.tag, found.bytes) == (5, size)
    if not is_wanted:
        assert found.found is not None
        got = found.found
    assert np.array_equal(got, given)


def test_request_takes_its_own_rank_and_tag_or_any_rank() -> None:
    array = np.zeros(1)
    assert request(array, 2, 3).wants(2, 3)
    assert not request(array, 2, 3).wants(1, 3)
    assert not request(array, 2, 3).wants(2, 4)
    assert request(array, ANY_RANK, 3).wants(1, 3)
