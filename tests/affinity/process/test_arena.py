from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from affinity.errors import PlacementError
from affinity.placement.plan import Arena, MemoryPlan, Placement
from affinity.process.arena import allocate_in, arena
from affinity.process.memory_policy import memory_policy, set_memory_policy
from affinity.process.own import PLACEMENT_VARIABLE, encode_placement
from affinity.process.policy import Policy


@pytest.fixture
def split(node: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """A worker with the arenas "weights", preferred, and "data", bound, on this node."""
    arenas = (Arena("weights", "preferred", (node,)), Arena("data", "bind", (node,)))
    placement = Placement(0, (0,), 1, (0,), memory=MemoryPlan("split", arenas=arenas))
    monkeypatch.setenv(PLACEMENT_VARIABLE, encode_placement(placement))
    return node


def test_thread_has_the_policy_of_the_arena_within_it_and_its_own_again_after(split: int) -> None:
    set_memory_policy("interleave", (split,))
    with arena("weights") as applied:
        assert memory_policy() == Policy("preferred", (split,)) == applied[:2]
        with arena("data"):
            assert memory_policy() == Policy("bind", (split,))
        assert memory_policy() == Policy("preferred", (split,))
    assert memory_policy() == Policy("interleave", (split,))


def test_policy_is_restored_after_an_error(split: int) -> None:
    set_memory_policy("default")
    with pytest.raises(ZeroDivisionError), arena("data"):
        raise ZeroDivisionError
    assert memory_policy() == Policy("default")


def test_memory_of_an_arena_knows_its_place(split: int) -> None:
    memory = allocate_in("data", 1 << 20)
    assert memory_policy(memory.address) == Policy("bind", (split,))
    assert memory.buffer.nbytes == 1 << 20


def test_unknown_arena_is_an_error_that_names_the_known_ones(split: int) -> None:
    for use in (lambda: allocate_in("weight", 1), lambda: arena("weight").__enter__()):
        with pytest.raises(PlacementError) as caught:
            use()
        assert "has weights, data; did you mean 'weights'?" in str(caught.value)


def test_without_arenas_nothing_changes(node: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", encode_placement(Placement(0, (0,), 1, (0,)))):
        monkeypatch.setenv(PLACEMENT_VARIABLE, value)
        set_memory_policy("interleave", (node,))
        with arena("anything") as applied:
            assert memory_policy() == Policy("interleave", (node,))
        assert applied.mode == "default"
        assert memory_policy(allocate_in("anything", 4096).address) == Policy("default")


def test_forbidden_policies_are_a_note(split: int, refuse: Callable[..., None]) -> None:
    refuse("get_mempolicy", errno.EPERM)
    with arena("weights") as applied:
        assert applied.mode == "default"
        assert applied.notes[0].startswith("arena weights: the memory policy cannot be read")
