"""A whole training on two sockets, whose HBM is nodes 2 and 3: all its memory is there."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import REPOSITORY, Boot, Outcome

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

MEBIBYTE = 1 << 20
PICTURES_BYTES = 1_797 * (28 * 28 + 8) + 5 * 4096
"""The digits and their labels, and what is left of pages."""

COMMANDS = {
    "train": f"knltrain train {REPOSITORY / 'configs/lenet_digits.toml'} --workers 2 --name strict"
    " --no-pictures --set train.epochs= --set train.steps=2 --set backend.implementation=reference"
    " --set backend.threads=1 --set placement.memory=strict --set runs_folder=/tmp/runs",
    "placement": "cat /tmp/runs/strict/placement.json",
}


@pytest.fixture(scope="module")
def machine(boot: Boot) -> dict[str, Outcome]:
    return boot("xeonmax-flat", COMMANDS)


@pytest.fixture
def workers(machine: dict[str, Outcome]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = machine["placement"].facts()["workers"]
    return found


def test_training_ends_well_and_says_where_memory_was(machine: dict[str, Outcome]) -> None:
    status, told, error = machine["train"]
    assert (status, error) == (0, "")
    assert "step 2/2" in told
    assert "fit in each of HBM nodes 2-3" in told
    assert "on HBM node 2" in told


def test_the_run_folder_holds_what_was_asked_and_got(workers: list[dict[str, Any]]) -> None:
    assert [worker["asked"]["memory"]["nodes"] for worker in workers] == [[2], [3]]
    assert [worker["got"]["memory_policy"] for worker in workers] == ["bind:2", "bind:3"]
    assert [worker["got"]["cpus"] for worker in workers] == ["0-3", "4-7"]
    assert all(worker["got"]["problems"] == [] for worker in workers)


def test_own_memory_is_in_hbm_even_that_of_libraries_with_policies_of_their_own(
    workers: list[dict[str, Any]],
) -> None:
    for worker, node in zip(workers, ("2", "3"), strict=True):
        own = worker["got"]["memory"]["anonymous"]
        assert own[node] > 50 * MEBIBYTE
        assert sum(size for other, size in own.items() if other != node) < MEBIBYTE


def test_each_row_of_the_segment_is_in_its_workers_hbm(workers: list[dict[str, Any]]) -> None:
    for worker, (own, other) in zip(workers, (("2", "3"), ("3", "2")), strict=True):
        shared = worker["got"]["memory"]["shared"]
        assert shared[own] >= 431_080 * 4
        assert shared[own] > shared[other] > 0  # its own row and stripe, the other's stripe
        rest = 64 * 1024 + PICTURES_BYTES  # header, states, and the node's copy of the pictures
        assert shared.get("0", 0) + shared.get("1", 0) <= rest
