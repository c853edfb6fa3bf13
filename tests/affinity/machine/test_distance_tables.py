from __future__ import annotations

from collections.abc import Callable

import pytest

from affinity.machine.description import Description
from affinity.machine.distance_tables import like_knights, like_xeon_max

Describe = Callable[..., Description]

GIB = 1 << 30
SNC2 = [[10, 21, 31, 41], [21, 10, 41, 31], [31, 41, 10, 41], [41, 31, 41, 10]]
AURORA = [[10, 21, 13, 23], [21, 10, 23, 13], [13, 23, 10, 23], [23, 13, 23, 10]]
MAX_SNC4 = [
    [10, 12, 12, 12, 13, 14, 14, 14],
    [12, 10, 12, 12, 14, 13, 14, 14],
    [12, 12, 10, 12, 14, 14, 13, 14],
    [12, 12, 12, 10, 14, 14, 14, 13],
    [13, 14, 14, 14, 10, 14, 14, 14],
    [14, 13, 14, 14, 14, 10, 14, 14],
    [14, 14, 13, 14, 14, 14, 10, 14],
    [14, 14, 14, 13, 14, 14, 14, 10],
]


@pytest.fixture
def knights(describe: Describe) -> Description:
    return describe({0: 48, 1: 48}, {2: 8, 3: 8}, rows=SNC2, processor="")


@pytest.fixture
def xeon_max(describe: Describe) -> Description:
    return describe({0: 512, 1: 512}, {2: 64, 3: 64}, rows=AURORA, processor="", packages=2)


def test_table_of_xeon_phi_is_known(knights: Description) -> None:
    assert like_knights(knights, 16 * GIB)
    assert not like_xeon_max(knights, 64 * GIB)


def test_table_of_xeon_max_is_known(xeon_max: Description) -> None:
    assert like_xeon_max(xeon_max, 64 * GIB)
    assert not like_knights(xeon_max, 16 * GIB)


def test_table_of_xeon_max_in_snc4_is_known(describe: Describe) -> None:
    own, away = dict.fromkeys(range(4), 64), dict.fromkeys(range(4, 8), 16)
    assert like_xeon_max(describe(own, away, rows=MAX_SNC4, processor=""), 64 * GIB)


def test_clusters_share_the_hbm_of_their_package(describe: Describe) -> None:
    own, away = dict.fromkeys(range(4), 64), dict.fromkeys(range(4, 8), 17)
    assert not like_xeon_max(describe(own, away, rows=MAX_SNC4, processor=""), 64 * GIB)


@pytest.mark.parametrize("changed", [(0, 1), (2, 0), (2, 1), (2, 3)])
def test_one_other_distance_is_enough_to_be_another_table(
    knights: Description, changed: tuple[int, int]
) -> None:
    knights.distances[changed] += 1
    assert not like_knights(knights, 16 * GIB)


@pytest.mark.parametrize("missing", [(0, 1), (2, 0), (3, 2)])
def test_a_table_with_a_hole_is_no_evidence(knights: Description, missing: tuple[int, int]) -> None:
    del knights.distances[missing]
    assert not like_knights(knights, 16 * GIB)


def test_more_memory_than_the_processor_has_is_no_evidence(
    knights: Description, xeon_max: Description
) -> None:
    knights.nodes[3].memory_bytes = 9 * GIB
    assert not like_knights(knights, 16 * GIB)
    xeon_max.nodes[3].memory_bytes = 65 * GIB
    assert not like_xeon_max(xeon_max, 64 * GIB)


def test_two_memories_of_the_same_cpus_are_no_pairs(describe: Describe) -> None:
    rows = [[10, 21, 31, 31], [21, 10, 41, 41], [31, 41, 10, 41], [31, 41, 41, 10]]
    assert not like_knights(describe({0: 8, 1: 8}, {2: 1, 3: 1}, rows=rows), 16 * GIB)


def test_without_memory_apart_there_is_nothing_to_know(describe: Describe) -> None:
    description = describe({0: 8, 1: 8}, rows=[[10, 21], [21, 10]], processor="")
    assert not like_knights(description, 16 * GIB)
    assert not like_xeon_max(description, 64 * GIB)
