"""Where trainings run, and what is found of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knltrain.bench.nodes.training import Ground, TrainingFigures


def ground(groups: list[list[int]]) -> Ground:
    hosts: Any = None
    return Ground(hosts, groups, "lenet", Path(), batch=8, steps=2)


def test_cpus_of_all_workers_are_told_once() -> None:
    apart, shared = ground([[2, 3], [0, 1]]), ground([[0], [1], [0], [1]])
    assert (apart.workers, apart.cpus, apart.cores_are_shared) == (2, [0, 1, 2, 3], False)
    assert (shared.workers, shared.cpus, shared.cores_are_shared) == (4, [0, 1], True)


def test_share_of_communication_is_of_the_whole_step() -> None:
    found = TrainingFigures(
        100.0, communication_seconds=0.3, computing_seconds=0.6, step_seconds=1.0
    )
    assert found.communication_share == pytest.approx(0.3)
    assert TrainingFigures(100.0).communication_share is None
