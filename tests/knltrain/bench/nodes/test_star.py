"""The star as a training on hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knltrain.bench.nodes import star as star_module
from knltrain.bench.nodes.star import Star
from knltrain.bench.nodes.training import Ground
from knltrain.bench.step import peer_process
from knltrain.bench.step.peer_process import PeerError
from knltrain.communication.mpi.library import mpi_library
from knltrain.errors import ConfigError

from ...hosts import hosts_or_skip


@pytest.fixture
def needs_pmi() -> None:
    try:
        if not mpi_library().speaks_pmi:
            pytest.skip("this MPI needs its own launcher")
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.usefixtures("needs_pmi")
def test_three_hosts_train_by_a_master(tmp_path: Path) -> None:
    with hosts_or_skip(3) as made:
        ground = Ground(made, [[0], [0], [0]], "lenet", tmp_path, batch=8, steps=3)
        found = Star("one-host").train(ground, tmp_path)
    assert found.images_per_second > 0
    assert found.communication_share is not None
    assert 0 < found.communication_share < 1
    parts = (found.communication_seconds or 0) + (found.computing_seconds or 0)
    assert parts <= (found.step_seconds or 0) * (1 + 1e-6)


@pytest.mark.slow
def test_a_rank_that_fails_ends_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_process, "END_SECONDS", 0.5)
    with hosts_or_skip(2) as made:
        ground = Ground(made, [[0], [0]], "lenet", tmp_path, batch=8, steps=2)
        begun = star_module._rank

        def one_without_its_file(ground: Ground, file: Path, rank: int) -> Any:
            return begun(ground, file if rank == 0 else tmp_path / "none.toml", rank)

        monkeypatch.setattr(star_module, "_rank", one_without_its_file)
        with pytest.raises(PeerError, match=r"'star, rank 1' ended .*(?s:.)*none\.toml"):
            Star().train(ground, tmp_path)


def test_ranks_that_end_with_other_weights_are_not_compared(tmp_path: Path) -> None:
    hosts: Any = None
    ground = Ground(hosts, [[0], [0]], "lenet", tmp_path, batch=8, steps=2)
    seconds = {"seconds": 1.0, "communication_seconds": 0.5, "computing_seconds": 0.25}
    same = [{**seconds, "weights": 1}, {**seconds, "seconds": 2.0, "weights": 1}]
    found = star_module._found(ground, same)
    assert (found.images_per_second, found.step_seconds) == (16.0, 0.75)
    with pytest.raises(PeerError, match="do not have the same weights"):
        star_module._found(replace(ground), [same[0], {**same[1], "weights": 2}])
