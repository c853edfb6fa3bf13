"""What the workers of a segment do comes out right in every interleaving of them."""

from __future__ import annotations

from typing import Any

import pytest
from interleaving.exploration import Exploration
from interleaving.segment_programs import (
    all_kinds,
    exchanges,
    expected_center,
    meets,
    pushes,
    starts,
    sums,
    visits,
)

from ...marks import by_cost

COLLECTIVE = {
    "barriers": meets(3),
    "exchange": exchanges(1),
    "start": starts,
    "sums": sums(3),
}
LONGER = {"exchanges": exchanges(3), "sums": sums(5), "all kinds": all_kinds}
WITH_A_DEATH = {
    "barriers": meets(2),
    "exchange": exchanges(1),
    "sums": sums(2),
    "visit": visits(1, "first_come"),
    "visits in turn": visits(2, "round_robin"),
}
OF_THREE = {
    "barrier": meets(1),
    "sum": sums(1),
    "visit": visits(1, "first_come"),
    "visits in turn": visits(1, "round_robin"),
}


@pytest.mark.parametrize("program", COLLECTIVE.values(), ids=COLLECTIVE)
def test_collectives_of_two_workers(on_segment: Any, program: Any) -> None:
    assert Exploration(on_segment(2, program)).run().ends >= 1


@pytest.mark.slow
@pytest.mark.parametrize("program", LONGER.values(), ids=LONGER)
def test_many_collectives_of_two_workers(on_segment: Any, program: Any) -> None:
    assert Exploration(on_segment(2, program)).run().ends >= 1


@pytest.mark.parametrize("order, rounds", [("first_come", 1), ("round_robin", 2)])
@pytest.mark.parametrize("way", [visits, pushes])
def test_nothing_that_two_workers_bring_is_lost(
    on_segment: Any, way: Any, order: Any, rounds: int
) -> None:
    scenario = on_segment(2, way(rounds, order), expected_center=expected_center(2, rounds))
    assert Exploration(scenario).run().ends >= 1


def test_turns_go_round_in_the_order_of_ranks(on_segment: Any) -> None:
    """What is at the center when a worker comes says who has been there before."""

    def program(transport: Any) -> None:
        visit = visits(1, "round_robin")
        for number in (0, 1):
            visit(transport)
            here = expected_center(2, number) + expected_center(transport.rank + 1, 1)
            assert transport.local.raw()[0] == here

    Exploration(on_segment(2, program)).run()


@pytest.mark.slow
@pytest.mark.parametrize("program", WITH_A_DEATH.values(), ids=WITH_A_DEATH)
def test_death_of_one_anywhere_ends_the_other_or_does_not_matter(
    on_segment: Any, program: Any
) -> None:
    found = Exploration(on_segment(2, program, deaths=True), deaths=1).run()
    assert found.ends >= 10


@pytest.mark.slow
@pytest.mark.parametrize("program", OF_THREE.values(), ids=OF_THREE)
def test_three_workers_of_which_one_is_held_up(on_segment: Any, program: Any) -> None:
    assert Exploration(on_segment(3, program), preemptions=1).run().ends >= 1


@pytest.mark.slow
@pytest.mark.parametrize("program", OF_THREE.values(), ids=OF_THREE)
def test_three_workers(on_segment: Any, program: Any) -> None:
    assert Exploration(on_segment(3, program, 1)).run().ends >= 1


@pytest.mark.long
def test_exchange_of_three_workers_of_which_two_are_held_up(on_segment: Any) -> None:
    assert Exploration(on_segment(3, exchanges(1), 3), preemptions=2).run().ends >= 1


@pytest.mark.parametrize("name", by_cost(OF_THREE, "visit", "visits in turn"))
def test_three_workers_of_which_one_is_held_up_and_one_dies(on_segment: Any, name: str) -> None:
    scenario = on_segment(3, OF_THREE[name], deaths=True)
    assert Exploration(scenario, deaths=1, preemptions=1).run().ends >= 10


@pytest.mark.slow
@pytest.mark.parametrize("way", [visits, pushes])
def test_nothing_of_many_visits_to_many_pieces_is_lost(on_segment: Any, way: Any) -> None:
    scenario = on_segment(2, way(2, "first_come"), expected_center=expected_center(2, 2))
    assert Exploration(scenario).run().ends >= 1
    scenario = on_segment(2, way(1, "first_come"), 4, expected_center=expected_center(2, 1))
    assert Exploration(scenario).run().ends >= 1
