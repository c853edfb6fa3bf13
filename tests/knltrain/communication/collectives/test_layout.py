from __future__ import annotations

import mmap

import pytest

from knltrain.communication.collectives.layout import (
    CHANNEL_BYTES,
    FIRST_STATE_WORD,
    HALF_BYTES,
    RING,
    RING_BYTES,
    SLOT_BYTES,
    STATE_WORDS,
    WORD_BYTES,
    GroupLayout,
    state_word,
)


@pytest.mark.parametrize("ranks", [1, 2, 3, 68])
def test_parts_lie_apart_and_slots_and_channels_begin_at_pages(ranks: int) -> None:
    layout = GroupLayout(ranks)
    parts = [(state_word(rank) * WORD_BYTES, STATE_WORDS * WORD_BYTES) for rank in range(ranks)]
    parts += [(layout.slot(rank), SLOT_BYTES) for rank in range(ranks)]
    parts += [
        (layout.channel(source, destination), CHANNEL_BYTES)
        for source in range(ranks)
        for destination in range(ranks)
    ]
    end = FIRST_STATE_WORD * WORD_BYTES
    for begin, bytes_ in parts:
        assert begin >= end
        end = begin + bytes_
        assert bytes_ == STATE_WORDS * WORD_BYTES or begin % mmap.PAGESIZE == 0
    assert end == layout.total_bytes
    assert layout.channels == layout.channel(0, 0)


def test_halves_and_rings_fit_in() -> None:
    assert 2 * HALF_BYTES == SLOT_BYTES
    assert RING * WORD_BYTES + RING_BYTES <= CHANNEL_BYTES
