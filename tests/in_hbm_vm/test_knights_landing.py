"""Xeon Phi in flat mode, in SNC-4 (MCDRAM of 256 MiB is nodes 4-7) and quadrant (1 GiB, node 1).

Both without an HMAT table, as the firmware of the real ones: distances and the processor tell.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import REPOSITORY, Boot, Outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SNC_4 = {
    "show": "affinity show --json",
    "check": "affinity check",
    "none": "affinity run --workers 4 --policy none -- rank.py heap 30",
    "spill": "affinity run --workers 4 -- rank.py heap 300",
    "strict": "affinity run --workers numa --policy strict --need heap=80M -- rank.py heap 80",
    "refused": "affinity run --workers 4 --policy strict --need heap=400M -- rank.py heap 1",
    "segments": "affinity run --workers 4 --env RANKS={workers} -- rank.py segments 20 /tmp/rows",
}
QUADRANT = {
    "show": "affinity show --json",
    "spill": "affinity run --workers 2 -- rank.py heap 600",
    "strict": "affinity run --workers 2 --policy strict --need heap=300M -- rank.py heap 300",
    "refused": "affinity run --workers 2 --policy strict --need heap=600M -- rank.py heap 1",
    "segments": "affinity run --workers 2 --env RANKS={workers} -- rank.py segments 40 /tmp/rows",
    "train": f"knltrain train {REPOSITORY / 'configs/lenet_digits.toml'} --workers 2 --name packed"
    " --no-pictures --set train.epochs= --set train.steps=2 --set backend.threads=1"
    " --set exchange.timeout_seconds=600 --set runs_folder=/tmp/runs",
    "logs": "cat /tmp/runs/packed/worker-0.log /tmp/runs/packed/worker-1.log",
}


@pytest.fixture(scope="module")
def snc_4(boot: Boot) -> dict[str, Outcome]:
    return boot("knl-snc4-flat", SNC_4, ["--no-hmat"])


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ready kernels: the emulated processor has the name of a Xeon Phi, and only AVX2."""
    folder = tmp_path_factory.mktemp("kernels")
    build = [sys.executable, REPOSITORY / "scripts/build_kernels", "--networks", "lenet"]
    subprocess.run([*build, folder, "haswell"], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def quadrant(boot: Boot, package: Path) -> dict[str, Outcome]:
    options = ["--bind", str(package), "--env", f"KNLTRAIN_KERNELS={package}"]
    return boot("knl-quad-flat", QUADRANT, ["--no-hmat", *options])


def test_snc_4_pairs_each_cluster_with_its_mcdram(snc_4: dict[str, Outcome]) -> None:
    shown = snc_4["show"].facts()
    hbm = {node["id"]: node["near"] for node in shown["numa_nodes"] if node["kind"] == "hbm"}
    assert hbm == {4: [0], 5: [1], 6: [2], 7: [3]}
    assert (shown["modes"]["cluster"], shown["modes"]["memory"]) == ("SNC-4", "flat")


def test_snc_4_the_kernel_and_hwloc_agree(snc_4: dict[str, Outcome]) -> None:
    status, told, _ = snc_4["check"]
    assert status == 0
    assert "FAIL" not in told
    assert "hwloc               sees the same" in told or "not installed" in told


def test_snc_4_strict_workers_are_each_in_their_mcdram(snc_4: dict[str, Outcome]) -> None:
    ranks = snc_4["strict"].ranks()
    assert [rank["cpus"][0] for rank in ranks] == [0, 4, 8, 12]
    assert [list(rank["heap"]) for rank in ranks] == [["4"], ["5"], ["6"], ["7"]]
    assert all(rank["problems"] == [] for rank in ranks)


def test_snc_4_without_a_policy_memory_is_in_dram(snc_4: dict[str, Outcome]) -> None:
    ranks = snc_4["none"].ranks()
    assert [list(rank["heap"]) for rank in ranks] == [["0"], ["1"], ["2"], ["3"]]


def test_snc_4_spill_fills_mcdram_and_then_its_clusters_dram(snc_4: dict[str, Outcome]) -> None:
    for rank in snc_4["spill"].ranks():
        dram, mcdram = str(rank["rank"]), str(4 + rank["rank"])
        assert set(rank["heap"]) == {dram, mcdram}
        assert rank["heap"][mcdram] > 200
        assert sum(rank["heap"].values()) >= 300


def test_snc_4_strict_is_refused_before_anything_starts(snc_4: dict[str, Outcome]) -> None:
    status, told, error = snc_4["refused"]
    assert (status, told) == (2, "")
    assert "worker 0 needs 400.0 MiB, but its share of MCDRAM node 4 is 2" in error


def test_snc_4_segments_stay_where_their_creator_put_them(snc_4: dict[str, Outcome]) -> None:
    ranks = snc_4["segments"].ranks()
    expected = [{"4": 20}, {"5": 20}, {"6": 20}, {"7": 20}]
    assert [rank["memfd"] for rank in ranks] == expected
    assert [rank["shm"] for rank in ranks] == expected


@pytest.mark.long
def test_quadrant_is_not_told_from_modes_that_look_the_same(quadrant: dict[str, Outcome]) -> None:
    shown = quadrant["show"].facts()
    assert [(n["kind"], n["near"]) for n in shown["numa_nodes"]] == [("dram", [0]), ("hbm", [0])]
    assert shown["modes"]["cluster"] == "all-to-all, hemisphere or quadrant"
    assert shown["modes"]["memory"] == "flat"


@pytest.mark.long
def test_quadrant_strict_workers_share_the_mcdram(quadrant: dict[str, Outcome]) -> None:
    ranks = quadrant["strict"].ranks()
    assert [rank["cpus"] for rank in ranks] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [list(rank["heap"]) for rank in ranks] == [["1"], ["1"]]
    assert "2 workers x 300.0 MiB = 600.0 MiB fit in MCDRAM node 1" in quadrant["strict"].error


@pytest.mark.long
def test_quadrant_strict_counts_all_workers_of_the_mcdram(quadrant: dict[str, Outcome]) -> None:
    status, told, error = quadrant["refused"]
    assert (status, told) == (2, "")
    assert "worker 0 needs 600.0 MiB, but its share of MCDRAM node 1 is 49" in error
    assert "at most 1 worker there" in error


@pytest.mark.long
def test_quadrant_spill_fills_the_mcdram_first(quadrant: dict[str, Outcome]) -> None:
    ranks = quadrant["spill"].ranks()
    mcdram = sum(rank["heap"].get("1", 0) for rank in ranks)
    dram = sum(rank["heap"].get("0", 0) for rank in ranks)
    assert mcdram > 900
    assert mcdram + dram >= 1200


@pytest.mark.long
def test_quadrant_segments_are_in_mcdram(quadrant: dict[str, Outcome]) -> None:
    for rank in quadrant["segments"].ranks():
        assert rank["memfd"] == rank["shm"] == {"1": 40}


@pytest.mark.long
def test_quadrant_trains_by_packaged_kernels_and_compiles_nothing(
    quadrant: dict[str, Outcome],
) -> None:
    status, told, error = quadrant["train"]
    assert (status, error) == (0, "")
    assert "step 2/2" in told
    counts = re.findall(r"kernels: (\d+) compiled in .*, (\d+) loaded", quadrant["logs"].told)
    assert len(counts) >= 2
    assert {compiled for compiled, _ in counts} == {"0"}
    assert all(int(loaded) > 5 for _, loaded in counts)
