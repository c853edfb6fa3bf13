from __future__ import annotations

import mmap

import pytest

from knltrain.communication.shared_memory.anonymous_file import HUGE_PAGE_BYTES, page_bytes_for
from knltrain.exchange.transports.layout import FIRST_STATE_WORD, STATE_WORDS, WORD_BYTES, Layout

SHAPES = [(size, workers) for size in (1, 17, 5000, 431_080) for workers in (1, 2, 3, 64)]


@pytest.mark.parametrize("size, workers", SHAPES)
def test_stripes_cover_every_element_once_in_rank_order(size: int, workers: int) -> None:
    layout = Layout(size, workers)
    stripes = [layout.stripe(rank) for rank in range(workers)]
    assert [e for stripe in stripes for e in range(size)[stripe]] == list(range(size))


@pytest.mark.parametrize("size, workers", SHAPES)
def test_stripes_never_share_a_cache_line(size: int, workers: int) -> None:
    layout = Layout(size, workers)
    begins = [layout.stripe(rank).start for rank in range(workers)]
    assert all(begin % 16 == 0 or begin == size for begin in begins)


def test_stripes_of_long_vectors_begin_at_pages_and_are_even() -> None:
    layout = Layout(431_080, 2)
    first, second = layout.stripe(0), layout.stripe(1)
    assert second.start * 4 % mmap.PAGESIZE == 0
    assert abs((first.stop - first.start) - (second.stop - second.start)) <= mmap.PAGESIZE // 4


@pytest.mark.parametrize("size, workers", SHAPES)
def test_parts_begin_at_pages_and_do_not_overlap(size: int, workers: int) -> None:
    layout = Layout(size, workers)
    states_end = (FIRST_STATE_WORD + workers * STATE_WORDS) * WORD_BYTES
    begins = [layout.row_offset(rank) for rank in range(workers + 1)]
    assert begins[0] >= states_end
    assert all(begin % mmap.PAGESIZE == 0 for begin in begins)
    ends = [begin + 4 * size for begin in begins]
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))
    assert ends[-1] <= layout.total_bytes


@pytest.mark.parametrize("size, workers", [(0, 1), (1, 0), (-5, 2)])
def test_layout_of_nothing_is_refused(size: int, workers: int) -> None:
    with pytest.raises(ValueError, match="at least 1 worker, 1 element and 1 center"):
        Layout(size, workers)


def test_long_vectors_begin_at_huge_pages_and_short_ones_at_small_ones() -> None:
    assert page_bytes_for(1000) == mmap.PAGESIZE
    assert page_bytes_for(431_080) == HUGE_PAGE_BYTES  # LeNet's 1.6 MiB
    layout = Layout(431_080, 2, HUGE_PAGE_BYTES)
    assert [layout.row_offset(rank) // HUGE_PAGE_BYTES for rank in range(3)] == [1, 2, 3]
    assert layout.used_header_bytes < mmap.PAGESIZE
    assert layout.total_bytes == 4 * HUGE_PAGE_BYTES


def test_stripes_of_very_long_vectors_begin_at_huge_pages_and_of_shorter_ones_at_small_pages() -> (
    None
):
    long, short = 9 * 2**20 + 2**17, 2**20 + 2**17  # floats; their middles are at no huge page
    huge, small = (Layout(size, 2, HUGE_PAGE_BYTES).stripe(1).start * 4 for size in (long, short))
    assert huge % HUGE_PAGE_BYTES == 0
    assert small % HUGE_PAGE_BYTES != 0
    assert small % mmap.PAGESIZE == 0


def test_pages_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="expected pages of 4096 or 2097152"):
        Layout(1, 1, 8192)
