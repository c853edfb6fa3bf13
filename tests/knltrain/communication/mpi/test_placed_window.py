from __future__ import annotations

import mmap
import os

import pytest

from affinity import MemoryPlan, Placement
from affinity.placement.plan import Arena
from affinity.process.memory_policy import allowed_memories
from knltrain.communication.mpi import placed_window
from knltrain.communication.mpi.placed_window import place_window, room_bytes, window_remarks
from knltrain.errors import SegmentError

PAGE = mmap.PAGESIZE


@pytest.fixture(autouse=True)
def _no_windows_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed_window, "_WINDOWS", [])


def _place(memory: MemoryPlan) -> Placement:
    return Placement(3, (0,), 1, (0,), memory=memory)


def test_pages_are_proved_on_the_node_of_the_plan() -> None:
    node = allowed_memories()[0]
    with mmap.mmap(-1, 10 * PAGE) as memory:
        view = memoryview(memory)[64:]
        place_window(view, "the window", _place(MemoryPlan("strict", "bind", (node,))))
        assert window_remarks() == (f"36.0 KiB of 36.0 KiB of the window on node {node}",)
        view.release()


def test_vectors_belong_to_the_arena_of_the_model() -> None:
    node = allowed_memories()[0]
    arena = Arena("model", "preferred", (node,))
    plan = MemoryPlan("split", "default", (), arenas=(arena,))
    with mmap.mmap(-1, PAGE) as memory:
        view = memoryview(memory)
        place_window(view, "the window", _place(plan))
        assert window_remarks() == (f"4.0 KiB of 4.0 KiB of the window on node {node}",)
        view.release()


@pytest.mark.parametrize("plan", [MemoryPlan(), MemoryPlan("none", "default", (0,))])
def test_memory_that_is_tied_to_nothing_is_left_alone(plan: MemoryPlan) -> None:
    with mmap.mmap(-1, PAGE) as memory:
        view = memoryview(memory)
        place_window(view, "the window", _place(plan))
        place_window(view[:100], "less than a page", _place(MemoryPlan("strict", "bind", (0,))))
        assert window_remarks() == ()
        view.release()


def test_strict_place_that_is_not_had_ends_with_the_pages_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = allowed_memories()[0]
    monkeypatch.setattr(placed_window, "pages_by_node", lambda *_: {node: 3, 7: 1})
    with mmap.mmap(-1, 4 * PAGE) as memory:
        view = memoryview(memory)
        with pytest.raises(SegmentError, match=r"only 12.0 KiB of 16.0 KiB .* is on node 7; free"):
            place_window(view, "the window", _place(MemoryPlan("strict", "bind", (node,))))
        place_window(view, "the window", _place(MemoryPlan("spill", "preferred", (node,))))
        assert window_remarks() == (f"12.0 KiB of 16.0 KiB of the window on node {node}",)
        view.release()


def test_node_that_does_not_exist_is_named_with_the_worker() -> None:
    with mmap.mmap(-1, PAGE) as memory:
        view = memoryview(memory)
        with pytest.raises(SegmentError, match="the window of worker 3: "):
            place_window(view, "the window", _place(MemoryPlan("strict", "bind", (1000,))))
        view.release()


def test_room_is_what_shared_memory_has_or_endless_if_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = os.statvfs("/dev/shm")
    assert 0 <= room_bytes() <= found.f_blocks * found.f_frsize

    def missing(_path: str) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("os.statvfs", missing)
    assert room_bytes() == 2**63 - 1
