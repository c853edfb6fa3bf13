"""The words and slots of rings, as the processes that share them see them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from affinity import MemoryPlan, Placement
from affinity.placement.plan import Arena
from knltrain.communication.shared_memory.process_identity import own_identity
from knltrain.errors import SegmentError
from knltrain.input import batch_ring
from knltrain.input.batch_ring import CLOSED, BatchRing
from knltrain.input.batch_shape import BatchShape

from .conftest import MakeRing

SHAPE = BatchShape(4, (6, 5, 3))


def test_two_mappings_see_the_same_batches_and_words(make_ring: MakeRing) -> None:
    ring = make_ring(workers=2, slots=3)
    other = BatchRing(os.dup(ring.fd), 2, 3, SHAPE)
    try:
        for worker in range(2):
            for number in range(3):
                ring.batch(worker, number).images_nhwc.fill(10 * worker + number)
                ring.put(worker, number)
        for worker in range(2):
            for number in range(3):
                assert (other.batch(worker, number).images_nhwc == 10 * worker + number).all()
                assert other.is_ready(worker, number)
                assert not other.is_ready(worker, number + 3)
    finally:
        other.close()


def test_a_slot_is_used_again_by_a_later_batch(make_ring: MakeRing) -> None:
    ring = make_ring(slots=2)
    ring.put(0, 1)
    ring.put(0, 3)
    assert ring.is_ready(0, 3)
    assert not ring.is_ready(0, 1)
    assert np.shares_memory(ring.batch(0, 1).images_nhwc, ring.batch(0, 3).images_nhwc)


def test_a_worker_wants_nothing_before_it_has_begun_and_after_it_has_left(
    make_ring: MakeRing,
) -> None:
    ring = make_ring(workers=2)
    assert ring.wanted(1) is None
    ring.want(1, 0)
    assert (ring.wanted(0), ring.wanted(1)) == (None, 0)
    ring.want(1, 17)
    assert ring.wanted(1) == 17
    ring.leave(1)
    assert ring.wanted(1) == CLOSED


def test_first_abort_code_is_kept(make_ring: MakeRing) -> None:
    ring = make_ring()
    assert ring.abort_code == 0
    ring.abort(143)
    ring.abort(1)
    assert ring.abort_code == 143


def test_pool_is_known_by_its_process(make_ring: MakeRing) -> None:
    ring = make_ring()
    assert ring.pool == 0
    ring.serve()
    assert ring.pool == own_identity()


def test_memory_of_another_size_is_refused(make_ring: MakeRing) -> None:
    ring = make_ring(workers=2, slots=2)
    with pytest.raises(SegmentError, match="but batches for 3 workers take"):
        BatchRing(ring.fd, 3, 2, SHAPE)


def test_slots_of_a_worker_are_allocated_when_it_claims_them(make_ring: MakeRing) -> None:
    ring = make_ring(workers=2, slots=2)
    words = os.fstat(ring.fd).st_blocks
    ring.claim(1)
    assert (os.fstat(ring.fd).st_blocks - words) * 512 == 2 * SHAPE.bytes


def test_each_worker_has_its_slots_where_its_placement_says(
    make_ring: MakeRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = []

    class Applied:
        notes = ("weaker",)

    def place(part: memoryview, mode: str, nodes: tuple[int, ...], required: bool) -> Applied:
        placed.append((part.nbytes, mode, nodes, required))
        return Applied()

    monkeypatch.setattr(batch_ring, "place_mapping", place)
    ring = make_ring(workers=2)
    assert ring.place(0, Placement(0, (0,), 1, ()).memory) == ()
    whole = MemoryPlan("strict", "bind", (3,))
    split = MemoryPlan("split", "preferred", (0,), arenas=(Arena("batches", "preferred", (4,)),))
    assert ring.place(0, whole) == ("weaker",)
    ring.place(1, split)
    assert placed == [
        (2 * SHAPE.bytes, "bind", (3,), True),
        (2 * SHAPE.bytes, "preferred", (4,), False),
    ]
