from __future__ import annotations

import pytest

from knltrain.communication.memory_box.local.layout import (
    DATA_BEGIN,
    LOCKS,
    SLOT_WORDS,
    SLOTS,
    WORD_BYTES,
    Extent,
    first_gap,
    slot_word,
    stripes,
    whole_pages,
)

PAGE = 4096


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1000, 100_003])
@pytest.mark.parametrize("item_bytes", [4, 8])
def test_stripes_cover_every_element_once_and_begin_at_cache_lines(
    size: int, item_bytes: int
) -> None:
    found = stripes(size, item_bytes)
    assert len(found) == LOCKS
    assert [e for stripe in found for e in range(size)[stripe]] == list(range(size))
    assert all(stripe.start * item_bytes % 64 == 0 or stripe.start == size for stripe in found)


def test_slots_lie_behind_each_other_and_before_the_data() -> None:
    assert slot_word(1) - slot_word(0) == SLOT_WORDS
    assert (slot_word(SLOTS - 1) + SLOT_WORDS) * WORD_BYTES <= DATA_BEGIN


def test_gap_is_the_first_that_is_large_enough() -> None:
    taken = [Extent(DATA_BEGIN + 3 * PAGE, PAGE), Extent(DATA_BEGIN + PAGE, PAGE)]
    end = DATA_BEGIN + 6 * PAGE
    assert first_gap([], PAGE, end) == DATA_BEGIN
    assert first_gap(taken, PAGE, end) == DATA_BEGIN
    assert first_gap(taken, 2 * PAGE, end) == DATA_BEGIN + 4 * PAGE
    assert first_gap(taken, 3 * PAGE, end) is None


def test_pages_are_whole() -> None:
    assert [whole_pages(n) for n in (1, PAGE, PAGE + 1)] == [PAGE, PAGE, 2 * PAGE]
