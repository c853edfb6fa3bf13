from __future__ import annotations

import os
import selectors
from collections.abc import Iterator

import pytest

from affinity.cli.startup_messages import FirstWords


@pytest.fixture
def selector() -> Iterator[selectors.BaseSelector]:
    with selectors.DefaultSelector() as selector:
        yield selector


def _react(selector: selectors.BaseSelector) -> None:
    while ready := selector.select(0):
        for key, _ in ready:
            key.data()


def test_what_several_ranks_say_is_told_once_when_all_have_been_heard(
    selector: selectors.BaseSelector,
) -> None:
    told: list[str] = []
    words = FirstWords(selector, told.append)
    ends = [words.pipe(rank) for rank in range(4)]
    for end in ends[:3]:
        os.write(end, b"affinity.exec: no such mode\n")
    os.write(ends[1], b"affinity.exec: \xff\naffinity.exec: more\n")
    for end in ends[:3]:
        os.close(end)
    _react(selector)
    assert told == []
    os.close(ends[3])
    _react(selector)
    assert told == ["ranks 0-2: no such mode", "rank 1: \ufffd", "rank 1: more"]
    assert not selector.get_map()


def test_ranks_that_say_nothing_are_not_mentioned(selector: selectors.BaseSelector) -> None:
    told: list[str] = []
    os.close(FirstWords(selector, told.append).pipe(0))
    _react(selector)
    assert told == []


def test_rest_is_told_in_the_end_though_somebody_holds_a_pipe(
    selector: selectors.BaseSelector,
) -> None:
    told: list[str] = []
    words = FirstWords(selector, told.append)
    ends = [words.pipe(rank) for rank in range(2)]
    os.write(ends[0], b"affinity.exec: not found\n")
    os.close(ends[0])
    words.finish()
    assert told == ["rank 0: not found"]
    os.close(ends[1])
    _react(selector)
    assert told == ["rank 0: not found"]
