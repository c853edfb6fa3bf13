"""Both boxes keep the same promises: that within a node, and that across nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knltrain.communication.memory_box.local import SoftMemoryBox

from ...mpi_ranks import expect_success, needs_mpi, run_ranks
from . import box_contract

PROGRAM = Path(box_contract.__file__)


@pytest.mark.parametrize("promise", box_contract.CONTRACT)
def test_box_within_a_node(promise: str) -> None:
    with SoftMemoryBox.create(box_contract.ROOM, timeout_seconds=20) as box:
        box_contract.CONTRACT[promise](box)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    said = expect_success(run_ranks(3, str(PROGRAM)))
    found: dict[str, str] = json.loads(said.splitlines()[-1])
    return found


@needs_mpi
@pytest.mark.parametrize("promise", box_contract.CONTRACT)
def test_box_across_nodes(promise: str, outcomes: dict[str, str]) -> None:
    assert not outcomes[promise], outcomes[promise]
