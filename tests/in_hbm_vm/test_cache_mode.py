"""Xeon Phi whose MCDRAM is a memory-side cache of 1 GiB in front of 2 GiB of DRAM (node 0)."""

from __future__ import annotations

import pytest

from .conftest import Boot, Outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

COMMANDS = {
    "show": "affinity show --json",
    "check": "affinity check",
    "exceeds": "affinity run --workers 2 --policy cache --need data=700M -- rank.py heap 60",
    "fits": "affinity plan --workers 2 --policy cache --need data=300M",
    "hbm": "affinity run --workers 2 --memory hbm -- rank.py heap 1",
}


@pytest.fixture(scope="module")
def machine(boot: Boot) -> dict[str, Outcome]:
    return boot("knl-quad-cache", COMMANDS)


def test_the_mode_and_the_cache_are_shown(machine: dict[str, Outcome]) -> None:
    shown = machine["show"].facts()
    (node,) = shown["numa_nodes"]
    assert (node["kind"], shown["modes"]["memory"]) == ("dram", "cache")
    assert [cache["size_bytes"] for cache in node["side_caches"]] == [2**30]


def test_check_finds_nothing_wrong(machine: dict[str, Outcome]) -> None:
    status, told, _ = machine["check"]
    assert status == 0
    assert "set up as all-to-all, hemisphere or quadrant, cache" in told


def test_needs_beyond_the_cache_are_warned_of(machine: dict[str, Outcome]) -> None:
    ranks = machine["exceeds"].ranks()
    assert [list(rank["heap"]) for rank in ranks] == [["0"], ["0"]]
    assert "1.4 GiB in DRAM node 0 exceed its memory-side cache of 1.0 GiB" in (
        machine["exceeds"].error
    )


def test_needs_within_the_cache_are_not(machine: dict[str, Outcome]) -> None:
    status, told, _ = machine["fits"]
    assert status == 0
    assert "300.0 MiB in DRAM 0" in told
    assert "exceed" not in told


def test_hbm_cannot_be_asked_for(machine: dict[str, Outcome]) -> None:
    status, told, error = machine["hbm"]
    assert (status, told) == (2, "")
    assert "a memory-side cache works by itself; use policy 'cache'" in error
