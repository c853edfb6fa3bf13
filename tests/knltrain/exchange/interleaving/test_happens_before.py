from __future__ import annotations

import pytest
from interleaving.happens_before import DataRace, HappensBefore

CELLS = [("line", 7)]
FLAG, OTHER = ("word", 1), ("word", 2)


@pytest.fixture
def order() -> HappensBefore:
    return HappensBefore(3)


def test_release_and_acquire_order_a_write_before_a_read(order: HappensBefore) -> None:
    order.write(0, CELLS, "writes")
    order.release(0, FLAG)
    order.acquire(1, FLAG)
    order.read(1, CELLS, "reads")


def test_order_is_handed_on_through_others(order: HappensBefore) -> None:
    order.write(0, CELLS, "writes")
    order.release(0, FLAG)
    order.acquire(1, FLAG)
    order.release(1, OTHER)
    order.acquire(2, OTHER)
    order.write(2, CELLS, "writes")


@pytest.mark.parametrize("word", [None, OTHER])
def test_read_of_what_nothing_orders_is_a_race(
    order: HappensBefore, word: tuple[str, int] | None
) -> None:
    order.write(0, CELLS, "writes")
    order.release(0, FLAG)
    if word:
        order.acquire(1, word)
    with pytest.raises(DataRace, match=r"worker 1 reads .* while worker 0 writes it"):
        order.read(1, CELLS, "reads")


def test_write_after_the_release_is_not_covered_by_it(order: HappensBefore) -> None:
    order.release(0, FLAG)
    order.write(0, CELLS, "writes")
    order.acquire(1, FLAG)
    with pytest.raises(DataRace):
        order.read(1, CELLS, "reads")


def test_write_of_what_another_reads_is_a_race(order: HappensBefore) -> None:
    order.read(0, CELLS, "reads")
    order.read(1, CELLS, "reads")
    with pytest.raises(DataRace, match=r"worker 2 writes .* while worker 0 reads it"):
        order.write(2, CELLS, "writes")


def test_store_without_release_hands_nothing_on(order: HappensBefore) -> None:
    order.write(0, CELLS, "writes")
    order.release(0, FLAG)
    order.store(FLAG)
    order.acquire(1, FLAG)
    with pytest.raises(DataRace):
        order.read(1, CELLS, "reads")


def test_what_all_know_counts_no_more(order: HappensBefore) -> None:
    before = order.state([0, 1])
    order.write(0, CELLS, "writes")
    assert order.state([0, 1]) != before
    order.release(0, FLAG)
    order.acquire(1, FLAG)
    _, released, written, read = order.state([0, 1])  # type: ignore[misc]
    assert (released, written, read) == ([], [], [])
