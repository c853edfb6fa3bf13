from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinity.placement.sharing import ALIGNED_SHARE, Group, pack, share
from affinity.placement.tiles import Tile
from affinity.topology import Core


def _row(*nodes: Sequence[int], nodes_per_package: int = 1, tiles_per_l3: int = 100) -> Group:
    """Tiles of so many cores, node by node."""
    tiles: list[Tile] = []
    for node, sizes in enumerate(nodes):
        for at, size in enumerate(sizes):
            first = 4 * len(tiles)
            package, l3 = node // nodes_per_package, 1000 * node + at // tiles_per_l3
            cores = (Core(cpu, package, node, (cpu,)) for cpu in range(first, first + size))
            tiles.append(Tile(tuple(cores), package, node, len(tiles), l3))
    return tuple(tiles)


def _sizes(groups: Sequence[Group]) -> list[int]:
    return [sum(len(tile.cores) for tile in group) for group in groups]


def _cut_anyhow(sizes: Sequence[int], workers: int) -> list[list[int]]:
    """The sizes of the groups, for every way to cut the row."""
    return [
        [sum(sizes[begin:end]) for begin, end in pairwise((0, *cuts, len(sizes)))]
        for cuts in combinations(range(1, len(sizes)), workers - 1)
    ]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=9), st.data())
def test_even_cut_is_the_best_of_all_cuts(sizes: list[int], data: st.DataObject) -> None:
    workers = data.draw(st.integers(1, len(sizes)))
    groups = _sizes(share(_row(sizes), workers))
    best = max(_cut_anyhow(sizes, workers), key=lambda cut: (min(cut), -max(cut)))
    assert (min(groups), max(groups)) == (min(best), max(best))
    assert len(groups) == workers


@given(
    st.lists(st.lists(st.integers(1, 2), min_size=1, max_size=6), min_size=1, max_size=6), st.data()
)
def test_respecting_boundaries_costs_the_smallest_group_a_tenth_at_most(
    nodes: list[list[int]], data: st.DataObject
) -> None:
    row = _row(*nodes, nodes_per_package=2, tiles_per_l3=2)
    workers = data.draw(st.integers(1, len(row)))
    groups = share(row, workers)
    even = share(_row([size for sizes in nodes for size in sizes]), workers)
    assert sum(groups, ()) == row
    assert min(_sizes(groups)) >= ALIGNED_SHARE * min(_sizes(even))


@pytest.mark.parametrize(
    ("nodes", "workers", "sizes"),
    [
        pytest.param([[2] * 9, [2] * 9, [2] * 8, [2] * 8], 4, [18, 18, 16, 16], id="one each"),
        pytest.param(
            [[2] * 9, [2] * 9, [2] * 8, [2] * 8], 8, [10, 8, 10, 8, 8, 8, 8, 8], id="two each"
        ),
        pytest.param([[2] * 9, [2] * 9, [2] * 8, [2] * 8], 2, [36, 32], id="two nodes each"),
        pytest.param([[1] * 8, [1] * 8], 3, [6, 5, 5], id="aligned would leave one half the other"),
        pytest.param([[1] * 68], 3, [23, 23, 22], id="one node"),
        pytest.param([[1], [1] * 30], 2, [16, 15], id="one tiny node"),
        pytest.param([[2, 2, 2, 2, 1]], 3, [4, 2, 3], id="tiles cut by the cpuset"),
    ],
)
def test_groups_keep_to_numa_nodes_where_that_costs_little(
    nodes: list[list[int]], workers: int, sizes: list[int]
) -> None:
    assert _sizes(share(_row(*nodes, nodes_per_package=4), workers)) == sizes


def test_packages_count_more_than_numa_nodes_and_these_more_than_l3s() -> None:
    four_nodes = _row(*[[1] * 10] * 4, nodes_per_package=2, tiles_per_l3=5)
    halves = share(four_nodes, 2)
    assert [{tile.package for tile in group} for group in halves] == [{0}, {1}]
    quarters = share(four_nodes, 4)
    assert [{tile.numa_node for tile in group} for group in quarters] == [{0}, {1}, {2}, {3}]
    eighths = share(four_nodes, 8)
    assert [len({tile.l3 for tile in group}) for group in eighths] == [1] * 8


def test_cut_keeps_to_l3s_inside_a_node() -> None:
    # 3 L3s of 7 cores for 2 workers: 14 and 7 would be too uneven, for 3 workers all fits.
    node = _row([1] * 21, tiles_per_l3=7)
    assert _sizes(share(node, 2)) == [11, 10]
    assert [{tile.l3 for tile in group} for group in share(node, 3)] == [{0}, {1}, {2}]


def test_more_workers_than_tiles_cannot_share() -> None:
    assert share(_row([2, 2]), 3) == []


def test_share_that_leaves_a_worker_too_few_cores_is_refused() -> None:
    row = _row([1] * 5, [1] * 5)
    assert share(row, 3, least=4) == []
    assert _sizes(share(row, 2, least=5)) == [5, 5]


def test_least_cores_allow_uneven_shares_that_respect_nodes() -> None:
    assert _sizes(share(_row([1] * 8, [1] * 8), 3, least=4)) in ([8, 4, 4], [4, 4, 8])


def test_pack_fills_from_the_front_without_spanning_l3s_or_nodes() -> None:
    row = _row([1] * 8, [1] * 8, tiles_per_l3=4)
    inside_l3 = pack(row, 4, 3)
    assert [group[0].cores[0].id for group in inside_l3] == [0, 16, 32, 48]
    inside_node = pack(row, 2, 5)
    assert [{tile.numa_node for tile in group} for group in inside_node] == [{0}, {1}]


def test_pack_spans_nodes_only_when_there_is_no_other_room() -> None:
    row = _row([1] * 5, [1] * 5)
    assert [{t.numa_node for t in group} for group in pack(row, 2, 3)] == [{0}, {1}]
    assert [{t.numa_node for t in group} for group in pack(row, 3, 3)] == [{0}, {0, 1}, {1}]
    assert pack(row, 4, 3) == []


def test_pack_gives_whole_tiles() -> None:
    groups = pack(_row([2] * 5), 2, 3)
    assert _sizes(groups) == [4, 4]
