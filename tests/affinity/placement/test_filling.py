from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from affinity.placement.filling import Demand, fill, portions

_orders = st.permutations((0, 1, 2)).flatmap(
    lambda order: st.integers(1, 3).map(lambda length: tuple(order[:length]))
)
_demands = st.lists(st.builds(Demand, st.integers(0, 100), _orders), max_size=8)
_free = st.fixed_dictionaries({node: st.integers(0, 200) for node in range(3)})


@given(_demands, _free)
def test_nothing_is_placed_twice_or_beyond_what_is_free(
    demands: list[Demand], free: dict[int, int]
) -> None:
    placed = fill(demands, free)
    for node, room in free.items():
        assert sum(part.get(node, 0) for part in placed) <= room
    for demand, part in zip(demands, placed, strict=True):
        assert sum(part.values()) <= demand.bytes
        assert set(part) <= set(demand.order)


@given(_demands, _free)
def test_who_goes_without_left_no_room_in_its_nodes(
    demands: list[Demand], free: dict[int, int]
) -> None:
    placed = fill(demands, free)
    for demand, part in zip(demands, placed, strict=True):
        if sum(part.values()) < demand.bytes:
            for node in demand.order:
                assert free[node] - sum(other.get(node, 0) for other in placed) == 0


def test_equal_demands_share_a_node_equally_and_spill_to_their_next() -> None:
    demands = [Demand(30, (2, 0)), Demand(30, (2, 1))]
    assert fill(demands, {0: 100, 1: 100, 2: 40}) == [{2: 20, 0: 10}, {2: 20, 1: 10}]


def test_small_demand_leaves_its_room_to_the_others() -> None:
    demands = [Demand(50, (0,)), Demand(10, (0,)), Demand(50, (0,))]
    assert fill(demands, {0: 70}) == [{0: 30}, {0: 10}, {0: 30}]


def test_overflow_comes_after_those_whose_first_node_it_is() -> None:
    demands = [Demand(30, (0, 1)), Demand(20, (1,))]
    assert fill(demands, {0: 10, 1: 25}) == [{0: 10, 1: 5}, {1: 20}]


@given(st.integers(0, 10**12), st.lists(st.integers(1, 1000), min_size=1, max_size=10))
def test_portions_add_up_and_follow_the_weights(number: int, weights: list[int]) -> None:
    parts = portions(number, weights)
    assert sum(parts) == number
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - number * weight / sum(weights)) < 1 + number * 1e-15
