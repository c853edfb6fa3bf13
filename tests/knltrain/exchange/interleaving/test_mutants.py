"""Protocols with a mistake in them: the exploration finds each of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from interleaving.box_programs import (
    accumulates,
    frees_and_comes_to_the_next,
    frees_and_finds_the_next_empty,
    frees_and_makes,
    frees_for_another_kind,
    only_accumulates,
    opens,
)
from interleaving.boxes import SLOTS
from interleaving.exploration import Broken, Exploration
from interleaving.segment_programs import (
    SumsUp,
    exchanges,
    expected_center,
    meets,
    starts,
    sums,
    visits,
)

from knltrain.communication.memory_box.local import Buffer, SoftMemoryBox, box, stripes
from knltrain.communication.memory_box.local.layout import BYTES, KEY, KIND, OFFSET
from knltrain.communication.shared_memory import atomics
from knltrain.communication.shared_memory.atomics import read
from knltrain.errors import PeerLost, SegmentError
from knltrain.exchange.transports import barrier
from knltrain.exchange.transports.center_locks import CenterLocks
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.peer_wait import PeerWait
from knltrain.exchange.transports.transport import WHOLE

Patch: TypeAlias = pytest.MonkeyPatch
Mutate: TypeAlias = Callable[[Any, Patch], None]


def take_that_is_not_whole(scenario: Any, patch: Patch) -> None:
    def exchange(array: Any, index: int, expected: int, value: int) -> int:
        found: int = scenario.seam.load_acquire(array, index)
        if found == expected:
            scenario.seam.store_release(array, index, value)
        return found

    patch.setattr(atomics, "_compare_exchange", exchange)


def stores_without_release(scenario: Any, patch: Patch) -> None:
    patch.setattr(
        atomics,
        "_store_release",
        lambda array, index, value: scenario.seam.store(array, index, value, release=False),
    )


def loads_without_acquire(scenario: Any, patch: Patch) -> None:
    patch.setattr(
        atomics,
        "_load_acquire",
        lambda array, index: scenario.seam.load(array, index, acquire=False),
    )


def equality_instead_of_order(scenario: Any, patch: Patch) -> None:
    """Who runs ahead is not seen as having been here."""

    def watch(sequences: Any, _abort_word: Any, sequence: int, _pauses: int, _yields: int) -> int:
        here = [scenario.seam.load_acquire(sequences, rank) for rank in range(len(sequences))]
        return next((rank for rank, each in enumerate(here) if each != sequence), len(here))

    patch.setattr(barrier, "watch", watch)


def _work_on_own_stripe(transport: Any, rule: SumsUp) -> None:
    part = transport._stripe_of(WHOLE)
    rule.synchronise(transport._locals[:, part], transport.center[part], transport.kept[:, part])


def without_first_wait(_scenario: Any, patch: Patch) -> None:
    def exchange(self: Any, rule: SumsUp) -> None:
        _work_on_own_stripe(self, rule)
        self._barrier.wait()

    patch.setattr(NodeShared, "exchange", exchange)


def without_second_wait(_scenario: Any, patch: Patch) -> None:
    def exchange(self: Any, rule: SumsUp) -> None:
        self._barrier.wait()
        _work_on_own_stripe(self, rule)

    patch.setattr(NodeShared, "exchange", exchange)


def start_without_wait(_scenario: Any, patch: Patch) -> None:
    start_from = NodeShared.start_from

    def start(self: Any, values: Any) -> None:
        waits = iter([lambda: None, self._barrier.wait])
        self._barrier = type("Skips", (), {"wait": lambda _: next(waits)()})()
        start_from(self, values)

    patch.setattr(NodeShared, "start_from", start)


def one_set_of_sums(_scenario: Any, patch: Patch) -> None:
    all_sum = NodeShared.all_sum

    def sum_up(self: Any, values: Any) -> Any:
        self._sums_turn = 0
        return all_sum(self, values)

    patch.setattr(NodeShared, "all_sum", sum_up)


def turn_that_is_not_awaited(_scenario: Any, patch: Patch) -> None:
    patch.setattr(CenterLocks, "_await_turn", lambda self: None)


def turn_that_stays(_scenario: Any, patch: Patch) -> None:
    patch.setattr(CenterLocks, "_turn_now", lambda self: 0)


def lock_that_is_kept(_scenario: Any, patch: Patch) -> None:
    patch.setattr("knltrain.exchange.transports.center_locks.give_back", lambda locks, index: None)


def nobody_looks_for_peers(_scenario: Any, patch: Patch) -> None:
    patch.setattr(PeerWait, "_check_alive", lambda self, awaited: None)


def peers_are_not_asked_for_twice(_scenario: Any, patch: Patch) -> None:
    """Who had the turn counts as awaited though it has passed the turn on and ended well."""
    patch.setattr(CenterLocks, "_who_has", lambda self, turn: [turn % self._workers])


def lock_of_the_dead_is_passed_by(_scenario: Any, patch: Patch) -> None:
    def passes(self: Any, number: int) -> None:
        while atomics.take.py_func(self._locks, number, self._identity, 2) != 0:  # type: ignore[attr-defined]
            try:
                self._wait_for(number)
            except PeerLost:
                return

    patch.setattr(Buffer, "_take_from_any", passes)


def open_that_does_not_ask_again(_scenario: Any, patch: Patch) -> None:
    def open_(self: Any, key: int) -> Buffer:
        slot = self._slot(key % SLOTS)
        if read.py_func(slot, KEY) != key:
            raise SegmentError("none")
        kind, bytes_, offset = (read.py_func(slot, field) for field in (KIND, BYTES, OFFSET))
        number = bytes_ // box._KINDS[kind].itemsize
        values = box.np.frombuffer(self._memory, box._KINDS[kind], number, offset)
        return Buffer(key, values, slot, self._timeout_seconds, self._free)

    patch.setattr(SoftMemoryBox, "open", open_)


def lock_of_a_stripe_that_is_given_back_at_once(_scenario: Any, patch: Patch) -> None:
    take = stripes.take

    def taken(slot: Any, lock: int, holder: int, looks: int) -> int:
        found = take(slot, lock, holder, looks)
        if found == 0:
            stripes.give_back(slot, lock)
        return found

    patch.setattr(stripes, "take", taken)


def buffer_that_may_be_another_under_the_lock(scenario: Any, patch: Patch) -> None:
    patch.setattr(stripes, "read", lambda slot, index: scenario.keys[0])


RACE = "while worker . (reads|writes) it"
FOR_EVER = "wait for ever"
NO_REASON = "ended with PeerLost"


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutate, program, deaths, found",
    [
        (take_that_is_not_whole, visits(1, "first_come"), 0, RACE),
        (stores_without_release, meets(1), 0, ""),
        (stores_without_release, exchanges(1), 0, RACE),
        (stores_without_release, visits(1, "first_come"), 0, RACE),
        (loads_without_acquire, exchanges(1), 0, RACE),
        (equality_instead_of_order, meets(2), 0, FOR_EVER),
        (without_first_wait, exchanges(1), 0, RACE),
        (without_second_wait, exchanges(1), 0, "local"),
        (start_without_wait, starts, 0, RACE),
        (one_set_of_sums, sums(2), 0, "sum"),
        (turn_that_is_not_awaited, visits(1, "round_robin"), 0, RACE),
        (turn_that_stays, visits(1, "round_robin"), 0, NO_REASON),
        (lock_that_is_kept, visits(1, "first_come"), 0, NO_REASON),
        (nobody_looks_for_peers, meets(1), 1, FOR_EVER),
        (nobody_looks_for_peers, visits(1, "first_come"), 1, FOR_EVER),
        (peers_are_not_asked_for_twice, visits(2, "round_robin"), 0, NO_REASON),
    ],
)
def test_mistake_in_a_segment_is_found(
    on_segment: Any,
    monkeypatch: Patch,
    mutate: Mutate,
    program: Any,
    deaths: int,
    found: str,
) -> None:
    scenario = on_segment(2, program, deaths=True)
    mutate(scenario, monkeypatch)
    if not found:  # words alone need no order
        assert Exploration(scenario, deaths).run().ends >= 1
        return
    with pytest.raises(Broken, match=found):
        Exploration(scenario, deaths).run()


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutate, program, result",
    [
        (take_that_is_not_whole, visits(1, "first_come"), "center"),
        (without_first_wait, exchanges(1), "local|center"),
        (without_second_wait, exchanges(1), "local|center"),
        (start_without_wait, starts, "start values"),
        (one_set_of_sums, sums(2), "sum"),
        (turn_that_is_not_awaited, visits(1, "round_robin"), "center"),
    ],
)
def test_mistake_shows_in_the_results_too(
    on_segment: Any, monkeypatch: Patch, mutate: Mutate, program: Any, result: str
) -> None:
    """Where plain accesses are steps as well, and races are not looked for."""
    scenario = on_segment(2, program, 1, expected_center=None)
    if "visits" in program.__qualname__:
        scenario.expected_center = expected_center(2, 1)
    scenario.seam.plain_accesses_are_steps = True
    mutate(scenario, monkeypatch)
    with pytest.raises(Broken, match=result) as found:
        Exploration(scenario).run()
    assert "while worker" not in str(found.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutate, programs, locks_of_dead, found",
    [
        (take_that_is_not_whole, [accumulates(1), accumulates(2)], (), RACE),
        (stores_without_release, [accumulates(1), accumulates(2)], (), RACE),
        (lock_of_the_dead_is_passed_by, [frees_and_makes, frees_and_comes_to_the_next], (0,), RACE),
        (open_that_does_not_ask_again, [opens, frees_for_another_kind], (), "opened"),
        (lock_of_a_stripe_that_is_given_back_at_once, [accumulates(1), accumulates(2)], (), RACE),
        (
            buffer_that_may_be_another_under_the_lock,
            [only_accumulates, frees_and_finds_the_next_empty],
            (),
            RACE,
        ),
    ],
)
def test_mistake_in_a_box_is_found(
    on_box: Any, monkeypatch: Patch, mutate: Mutate, programs: Any, locks_of_dead: Any, found: str
) -> None:
    scenario = on_box(
        programs, buffers=3 - len(locks_of_dead), locks_of_dead=locks_of_dead, allowed=SegmentError
    )
    mutate(scenario, monkeypatch)
    with pytest.raises(Broken, match=found):
        Exploration(scenario).run()
