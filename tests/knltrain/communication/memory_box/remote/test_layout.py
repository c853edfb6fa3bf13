from __future__ import annotations

import pytest

from knltrain.communication.memory_box.remote.layout import (
    DATA_BEGIN,
    EVENTS,
    EVENTS_BEGIN,
    GATE,
    GENERATION,
    GENERATION_BITS,
    HOLDER,
    SLOT_WORDS,
    SLOTS,
    USER,
    WORD_BYTES,
    WORDS,
    gates,
    generation,
    shards,
    slot_word,
    users,
    whole_pages,
)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1000, 100_003])
@pytest.mark.parametrize("servers", [1, 2, 3, 16])
@pytest.mark.parametrize("item_bytes", [4, 8])
def test_shards_cover_every_element_once_and_begin_at_cache_lines(
    size: int, servers: int, item_bytes: int
) -> None:
    found = shards(size, item_bytes, servers)
    assert len(found) == servers
    assert [e for shard in found for e in range(size)[shard]] == list(range(size))
    assert all(shard.start * item_bytes % 64 == 0 or shard.start == size for shard in found)
    lengths = [shard.stop - shard.start for shard in found]
    assert max(lengths) == lengths[0] <= -(-size // servers) + 64 // item_bytes


def test_slots_lie_behind_each_other_and_before_the_data() -> None:
    assert slot_word(1) - slot_word(0) == SLOT_WORDS
    assert (slot_word(SLOTS - 1) + SLOT_WORDS) * WORD_BYTES == WORDS * WORD_BYTES <= DATA_BEGIN
    assert HOLDER < EVENTS_BEGIN
    assert EVENTS_BEGIN + EVENTS == SLOT_WORDS


@pytest.mark.parametrize("number", [0, 1, 2**GENERATION_BITS - 1])
def test_lock_tells_apart_who_adds_who_is_alone_and_whose_it_is(number: int) -> None:
    lock = number * GENERATION + 3 * GATE + 70 * USER
    assert (generation(lock), gates(lock), users(lock)) == (number, 3, 70)
    assert lock < 2**63


def test_pages_are_whole() -> None:
    assert [whole_pages(n) for n in (1, 4096, 4097)] == [4096, 4096, 8192]
