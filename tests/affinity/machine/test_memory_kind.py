"""x"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from affinity.errors import TopologyError
from affinity.machine.description import Description, Kind, ToldKind
from affinity.machine.locality import locality
from affinity.machine.memory_kind import (
    HbmWord,
    hbm_from_environment,
    memory_kinds,
    parse_hbm,
    unknown_hbm,
)
from affinity.machine.processors import identify


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


Describe = Callable[..., Description]


def _kinds(description: Description, *words: HbmWord) -> dict[int, Kind]:
    near = {node: locality(description, node) for node in description.nodes}
    return memory_kinds(description, identify(description), near, words)


def test_every_memory_gets_a_kind_by_id(describe: Describe) -> None:
    kinds = _kinds(describe({0: 96}, {1: 16}, processor="phi"))
    assert list(kinds) == [0, 1]
    assert (kinds[0].kind, kinds[1].kind) == ("dram", "hbm")


def test_the_users_word_stands_above_all_evidence(describe: Describe) -> None:
    description = describe({0: 512}, {1: 64, 2: 256})
    description.nodes[2].told = ToldKind("cxl", "hwloc")
    kinds = _kinds(description, HbmWord(1), HbmWord(2, by="AFFINITY_HBM_NODES"))
    assert kinds[1] == Kind("hbm", "the user says so: --hbm")
    assert kinds[2] == Kind("hbm", "the user says so: AFFINITY_HBM_NODES")
    assert kinds[0].kind == "dram"


def test_memory_next_to_cpus_is_hbm_if_the_user_says_so(describe: Describe) -> None:
    assert _kinds(describe({0: 32, 1: 512}), HbmWord(0))[0].kind == "hbm"


def test_what_the_user_does_not_name_is_no_hbm(describe: Describe) -> None:
    kinds = _kinds(describe({0: 96}, {1: 8, 2: 8}, processor="phi"), HbmWord(2))
    assert (kinds[1].kind, kinds[2].kind) == ("unknown", "hbm")
    assert kinds[1].evidence.startswith("not HBM, as --hbm names only 2; else memory without cpus")


def test_xeon_max_with_hbm_apart_keeps_its_dram(describe: Describe) -> None:
    # 32 GiB beside the cpus would be HBM if there were none apart.
    kinds = _kinds(describe({0: 32}, {1: 64}, processor="max"))
    assert (kinds[0].kind, kinds[1].kind) == ("dram", "hbm")


def test_way_out_names_the_memories_that_nothing_tells(describe: Describe) -> None:
    description = describe({0: 96}, {2: 8, 3: 8, 9: 0})
    text = unknown_hbm(_kinds(description), description)
    assert text is not None
    assert "NUMA node 2-3" in text
    assert "--hbm 2-3 or AFFINITY_HBM_NODES=2-3" in text


def test_nothing_is_to_be_said_where_all_kinds_are_told(describe: Describe) -> None:
    description = describe({0: 96, 1: 0}, {2: 8}, processor="phi")
    assert unknown_hbm(_kinds(description), description) is None
