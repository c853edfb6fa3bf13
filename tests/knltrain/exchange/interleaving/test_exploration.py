"""The explorer on programs whose interleavings are known."""

from __future__ import annotations

from typing import Any

import pytest
from interleaving.exploration import Broken, Exploration

UNBOUNDED = 1000


def stores_then_loads(own: int, other: int) -> Any:
    def program(words: Any) -> int:
        words.store(own, 1)
        return words.load(other)  # type: ignore[no-any-return]

    return program


def counts_badly(words: Any) -> int:
    found: int = words.load(0)
    words.store(0, found + 1)
    return found


def test_independent_workers_need_one_execution_but_all_states(on_words: Any) -> None:
    def on_own_word(number: int) -> Any:
        def program(words: Any) -> None:
            words.store(number, 1)
            words.store(number, 2)

        return program

    found = Exploration(on_words(on_own_word(0), on_own_word(1))).run()
    assert found.states == 4 * 4  # two stores and the end of each
    assert found.ends == 1


def test_store_of_what_is_there_already_is_a_step_ahead(on_words: Any) -> None:
    def stores_twice(words: Any) -> str:
        words.store(0, 0)
        words.store(0, 0)
        return "done"

    scenario = on_words(stores_twice, stores_twice)
    Exploration(scenario).run()
    assert scenario.outcomes == {("done", "done")}


def test_all_outcomes_of_stores_and_loads_are_found(on_words: Any) -> None:
    """Of one after the other, as interleavings go: not both loads before both stores."""
    scenario = on_words(stores_then_loads(0, 1), stores_then_loads(1, 0))
    Exploration(scenario).run()
    assert scenario.outcomes == {(0, 1), (1, 0), (1, 1)}


def test_updates_that_are_not_whole_get_lost(on_words: Any) -> None:
    scenario = on_words(counts_badly, counts_badly, counts_badly)
    Exploration(scenario).run()
    assert (0, 0, 0) in scenario.outcomes
    assert (0, 1, 2) in scenario.outcomes
    assert len(scenario.outcomes) == 13  # of 27: as many as weak orders of three


def test_whole_updates_do_not_get_lost(on_words: Any) -> None:
    scenario = on_words(*[lambda words: words.add(0, 1)] * 3)
    Exploration(scenario).run()
    assert {tuple(sorted(each)) for each in scenario.outcomes} == {(0, 1, 2)}


@pytest.mark.parametrize("preemptions, lost", [(0, False), (1, True)])
def test_bound_on_preemptions_bounds_what_is_found(
    on_words: Any, preemptions: int, lost: bool
) -> None:
    scenario = on_words(counts_badly, counts_badly)
    Exploration(scenario, preemptions=preemptions).run()
    assert ((0, 0) in scenario.outcomes) is lost


@pytest.mark.parametrize("deaths", [0, 1])
def test_reduction_finds_what_all_steps_find(on_words: Any, deaths: int) -> None:
    def mixes(first: int, second: int) -> Any:
        def program(words: Any) -> tuple[int, int, int]:
            words.store(first, first + 1)
            seen = words.load(second)
            taken = words.exchange(2, 0, first + 1)
            return seen, taken, words.add(3, first + 1)

        return program

    programs = mixes(0, 1), mixes(1, 0)
    reduced, full = on_words(*programs), on_words(*programs)
    fewer = Exploration(reduced, deaths).run()
    more = Exploration(full, deaths, preemptions=UNBOUNDED).run()
    assert reduced.outcomes == full.outcomes
    assert 2 * fewer.executions < more.executions


def test_locks_in_opposite_order_wait_for_ever(on_words: Any) -> None:
    def takes(first: int, second: int) -> Any:
        def program(words: Any) -> None:
            for lock in (first, second):
                while words.exchange(lock, 0, 1) != 0:
                    words.await_value(lock, 0)
            for lock in (first, second):
                words.store(lock, 0)

        return program

    with pytest.raises(Broken, match=r"workers \[0, 1\] wait for ever"):
        Exploration(on_words(takes(0, 1), takes(1, 0))).run()
    Exploration(on_words(takes(0, 1), takes(0, 1))).run()


def test_who_waits_for_the_dead_waits_for_ever(on_words: Any) -> None:
    scenario = on_words(lambda words: words.store(0, 1), lambda words: words.await_value(0, 1))
    Exploration(scenario).run()
    with pytest.raises(Broken, match=r"workers \[1\] wait for ever.*\n.*\n.*dies"):
        Exploration(scenario, deaths=1).run()


def test_race_is_found_though_it_does_no_harm_here(on_words: Any) -> None:
    def writes(words: Any) -> None:
        words.plain = 1
        words.store(0, 1)

    def reads(words: Any) -> int:
        words.load(0)
        return words.plain  # type: ignore[no-any-return]

    def awaits(words: Any) -> int:
        words.await_value(0, 1)
        return words.plain  # type: ignore[no-any-return]

    Exploration(on_words(writes, awaits)).run()
    with pytest.raises(Broken, match=r"('word', .*) while worker 0 writes it"):
        Exploration(on_words(writes, reads)).run()


def test_broken_promise_tells_the_steps_that_lead_there(on_words: Any) -> None:
    def program(words: Any) -> None:
        assert words.add(0, 1) == 0, "late"

    with pytest.raises(Broken, match=r"late(.|\n)*, in execution .*\n  worker 0: adds 1 word 0\n"):
        Exploration(on_words(program, program)).run()
