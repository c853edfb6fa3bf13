from __future__ import annotations

import pytest

from affinity.errors import TopologyError
from affinity.machine.user_override import HbmWord, hbm_from_environment, parse_hbm


def test_nodes_are_read_one_by_one_and_in_ranges() -> None:
    assert [word.node for word in parse_hbm(" 12, 2-3 ")] == [2, 3, 12]


def test_a_node_may_come_with_the_node_whose_cores_it_belongs_to() -> None:
    assert parse_hbm("9@1,8@0,10") == (
        HbmWord(8, near=0),
        HbmWord(9, near=1),
        HbmWord(10, near=None),
    )


def test_a_range_of_nodes_may_share_an_owner() -> None:
    assert [(word.node, word.near) for word in parse_hbm("2-3@0")] == [(2, 0), (3, 0)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("two", "'two': expected a NUMA node"),
        ("3-2", "'3-2': expected a NUMA node"),
        ("-1", "'-1': expected a NUMA node"),
        ("8@", "'8@': expected one node with cpus after the @"),
        ("8@0-1", "'8@0-1': expected one node with cpus after the @"),
        ("8@x", "'x': expected a NUMA node"),
        ("2-3,3@0", "'3@0': node 3 is named twice"),
        ("", "names no NUMA node"),
        ("@0", "names no NUMA node"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_way_out(text: str, reason: str) -> None:
    with pytest.raises(TopologyError) as error:
        parse_hbm(text, "--hbm")
    assert f"--hbm is {text!r}" in str(error.value)
    assert reason in str(error.value)
    assert "write 2-3 or 8@0,9@1" in str(error.value)


def test_own_variable_counts_before_memkinds() -> None:
    environment = {"MEMKIND_HBW_NODES": "4", "AFFINITY_HBM_NODES": "2@0"}
    assert hbm_from_environment(environment) == (HbmWord(2, 0, by="AFFINITY_HBM_NODES"),)


def test_memkinds_variable_counts_if_own_is_unset_or_blank() -> None:
    words = hbm_from_environment({"MEMKIND_HBW_NODES": "2-3", "AFFINITY_HBM_NODES": " "})
    assert words == (
        HbmWord(2, by="MEMKIND_HBW_NODES"),
        HbmWord(3, by="MEMKIND_HBW_NODES"),
    )


def test_nothing_is_said_where_no_variable_is_set() -> None:
    assert hbm_from_environment({}) == ()


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(TopologyError, match="MEMKIND_HBW_NODES is 'all'"):
        hbm_from_environment({"MEMKIND_HBW_NODES": "all"})
