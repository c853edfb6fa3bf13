"""Two sockets, each with 1 GiB of DRAM (nodes 0 and 1) and 512 MiB of HBM (nodes 2 and 3)."""

from __future__ import annotations

import pytest

from .conftest import Boot, Outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

WITH_AND_WITHOUT_HMAT = {
    "show": "affinity show --json",
    "spill": "affinity run --workers 2 -- rank.py heap 600",
    "strict": "affinity run --workers 2 --policy strict --need heap=150M -- rank.py heap 150",
}
COMMANDS = {
    **WITH_AND_WITHOUT_HMAT,
    "check": "affinity check",
    "none": "affinity run --workers 2 --policy none -- rank.py heap 60",
    "spill of four": "affinity run --workers 4 -- rank.py heap 60",
    "refused": "affinity run --workers 2 --policy strict --need heap=900M -- rank.py heap 1",
    "killed": "affinity run --workers 2 --policy strict -- rank.py heap 700",
    "beyond": "affinity run --workers 2 --policy strict -- rank.py beyond 900",
    "split": "affinity run --workers 2 --policy split --need weights=50M@hbm --need data=50M@dram"
    " -- rank.py arenas 50",
    "weighted": "affinity run --workers 2 --policy weighted -- rank.py heap 60",
    "segments": "affinity run --workers 2 --env RANKS={workers} -- rank.py segments 40 /tmp/rows",
}


@pytest.fixture(scope="module")
def with_hmat(boot: Boot) -> dict[str, Outcome]:
    return boot("xeonmax-flat", COMMANDS)


@pytest.fixture(scope="module")
def without_hmat(boot: Boot) -> dict[str, Outcome]:
    return boot("xeonmax-flat", WITH_AND_WITHOUT_HMAT, ["--no-hmat"])


@pytest.fixture(params=["with_hmat", pytest.param("without_hmat", marks=pytest.mark.long)])
def either(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = request.getfixturevalue(request.param)
    return outcomes


def test_hbm_is_told_and_belongs_to_its_socket(either: dict[str, Outcome]) -> None:
    shown = either["show"].facts()
    found = {node["id"]: (node["kind"], node["near"]) for node in shown["numa_nodes"]}
    assert found == {0: ("dram", [0]), 1: ("dram", [1]), 2: ("hbm", [0]), 3: ("hbm", [1])}


def test_bandwidths_are_those_of_the_hmat_table(with_hmat: dict[str, Outcome]) -> None:
    nodes = with_hmat["show"].facts()["numa_nodes"]
    assert [n["bandwidth_mb_per_second"] for n in nodes] == [200_000, 200_000, 800_000, 800_000]
    assert "HMAT" in nodes[2]["evidence"]


def test_the_kernel_and_hwloc_agree(with_hmat: dict[str, Outcome]) -> None:
    status, told, _ = with_hmat["check"]
    assert status == 0
    assert "a page bound to each of DRAM 0, DRAM 1, HBM 2 and HBM 3 came to lie there" in told
    assert "FAIL" not in told


def test_each_worker_is_on_a_socket_of_its_own(either: dict[str, Outcome]) -> None:
    assert [rank["cpus"] for rank in either["strict"].ranks()] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_strict_memory_is_all_in_the_hbm_of_the_socket(either: dict[str, Outcome]) -> None:
    ranks = either["strict"].ranks()
    assert [list(rank["heap"]) for rank in ranks] == [["2"], ["3"]]
    assert all(rank["problems"] == [] for rank in ranks)
    assert all(sum(rank["heap"].values()) >= 150 for rank in ranks)


def test_without_a_policy_memory_is_in_dram(with_hmat: dict[str, Outcome]) -> None:
    assert [list(rank["heap"]) for rank in with_hmat["none"].ranks()] == [["0"], ["1"]]


def test_spill_fills_hbm_and_then_dram_of_the_same_socket(either: dict[str, Outcome]) -> None:
    for rank in either["spill"].ranks():
        dram, hbm = str(rank["rank"]), str(2 + rank["rank"])
        assert set(rank["heap"]) == {dram, hbm}
        assert rank["heap"][hbm] > 400
        assert sum(rank["heap"].values()) >= 600
        assert rank["problems"] == []


def test_two_workers_of_a_socket_share_its_hbm(with_hmat: dict[str, Outcome]) -> None:
    ranks = with_hmat["spill of four"].ranks()
    assert [rank["cpus"] for rank in ranks] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [list(rank["heap"]) for rank in ranks] == [["2"], ["2"], ["3"], ["3"]]


def test_strict_is_refused_before_anything_starts(with_hmat: dict[str, Outcome]) -> None:
    status, told, error = with_hmat["refused"]
    assert (status, told) == (2, "")
    assert "worker 0 needs 900.0 MiB, but its share of HBM node 2 is 49" in error
    assert "policy 'spill'" in error


def test_a_worker_that_the_kernel_kills_is_explained(with_hmat: dict[str, Outcome]) -> None:
    status, _, error = with_hmat["killed"]
    assert status == 128 + 9
    assert "SIGKILL" in error


def test_binding_more_than_there_is_fails_in_time(with_hmat: dict[str, Outcome]) -> None:
    for rank in with_hmat["beyond"].ranks():
        assert f"900.0 MiB do not fit: node {2 + rank['rank']} has 4" in rank["error"]


def test_arenas_are_in_the_memory_of_their_kind(with_hmat: dict[str, Outcome]) -> None:
    ranks = with_hmat["split"].ranks()
    assert [rank["weights"] for rank in ranks] == [{"2": 50}, {"3": 50}]
    assert [rank["data"] for rank in ranks] == [{"0": 50}, {"1": 50}]
    assert all(rank["problems"] == [] for rank in ranks)


def test_weighted_memory_alternates_between_both_kinds(with_hmat: dict[str, Outcome]) -> None:
    for rank in with_hmat["weighted"].ranks():
        shares = rank["heap"]
        assert set(shares) == {str(rank["rank"]), str(2 + rank["rank"])}
        assert all(share > 25 for share in shares.values())
    assert "does not know memory policy weighted-interleave" in with_hmat["weighted"].error


def test_segments_stay_where_their_creator_put_them(with_hmat: dict[str, Outcome]) -> None:
    ranks = with_hmat["segments"].ranks()
    assert [rank["memfd"] for rank in ranks] == [{"2": 40}, {"3": 40}]
    assert [rank["shm"] for rank in ranks] == [{"2": 40}, {"3": 40}]
