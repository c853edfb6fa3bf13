from __future__ import annotations

from collections.abc import Callable

from affinity.machine.description import Description, Kind, ToldKind
from affinity.machine.locality import locality
from affinity.machine.memory_kind import memory_kinds, unknown_hbm
from affinity.machine.processors import identify
from affinity.machine.user_override import HbmWord

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
