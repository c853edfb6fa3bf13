from __future__ import annotations

import pytest

from knltrain import timeline
from knltrain.timeline import Timeline, mark_seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The times that marks are made at, taken from the front."""
    times: list[int] = []
    monkeypatch.setattr(timeline.time, "perf_counter_ns", lambda: times.pop(0))
    return times


def marked(made: Timeline, numbers: list[int]) -> None:
    for number in numbers:
        made.mark(number)


def test_a_part_begins_where_the_one_before_ends(clock: list[int]) -> None:
    made = Timeline(16)
    clock += [5, 8, 20]
    marked(made, [-1, 0, 3])
    assert made.count == 3  # that before the first part, too
    found = made.take()
    assert found.numbers.tolist() == [0, 3]
    assert (found.begins.tolist(), found.ends.tolist()) == ([5, 8], [8, 20])
    assert found.dropped == 0


def test_what_is_before_a_chain_counts_for_nothing(clock: list[int]) -> None:
    made = Timeline(16)
    clock += [1, 2, 50, 53]
    marked(made, [-1, 0, -1, 1])
    found = made.take()
    assert found.numbers.tolist() == [0, 1]
    assert (found.ends - found.begins).tolist() == [1, 3]


def test_each_part_is_taken_once(clock: list[int]) -> None:
    made = Timeline(4)
    assert made.take().numbers.size == 0
    for start in range(0, 60, 10):  # far more marks than there is room for
        clock += [start, start + 1, start + 3]
        marked(made, [-1, 0, 1])
        found = made.take()
        assert (found.ends - found.begins).tolist() == [1, 2]
        assert found.dropped == 0


def test_the_newest_marks_win_and_the_others_are_counted(clock: list[int]) -> None:
    made = Timeline(4)
    clock += range(10)
    marked(made, [-1, *range(9)])
    found = made.take()
    assert found.numbers.tolist() == [6, 7, 8]
    assert found.dropped == 6


def test_a_mark_costs_little_and_something() -> None:
    assert 0 < mark_seconds() < 1e-3


def test_a_part_that_is_taken_in_the_middle_is_whole_in_the_next_take(clock: list[int]) -> None:
    made = Timeline(8)
    clock += [5, 8, 20, 21]
    marked(made, [-1, 0])
    assert made.take().numbers.tolist() == [0]
    marked(made, [3])
    found = made.take()
    assert (found.numbers.tolist(), found.begins.tolist(), found.ends.tolist()) == ([3], [8], [20])
    marked(made, [-1])
    assert made.take().numbers.size == 0
