"""Ranks of a star as real processes: they compute what synchronous SGD is."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from knltrain.assembly import build_backend, build_dataset, build_network, build_optimizer
from knltrain.bench.answers import answers_of
from knltrain.bench.nodes.star import LEAVE
from knltrain.bench.step import peer_process
from knltrain.bench.step.peer_process import PeerError, PeerProcess
from knltrain.communication.mpi.library import mpi_library
from knltrain.config import load_config
from knltrain.data.dataset import Batch
from knltrain.data.order import ShardedBatches
from knltrain.errors import ConfigError
from knltrain.network.parameters import ParameterVector

CONFIG = """
    workers = 2
    [network]
    name = "lenet"
    [data]
    name = "digits"
    [train]
    batch = 16
    steps = 5
    [learning_rate]
    base = 0.05
    [backend]
    threads = 1
    [exchange]
    method = "sync_sgd"
    """
LONGEST_SECONDS = 120.0

Begin: TypeAlias = Callable[[], list[PeerProcess]]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """begin(): two ranks on this computer, which have not met yet."""
    try:
        if not mpi_library().speaks_pmi:
            pytest.skip("this MPI needs its own launcher")
    except ConfigError as error:
        pytest.skip(str(error))
    (tmp_path / "run.toml").write_text(CONFIG)
    with ExitStack() as stack:

        def run() -> list[PeerProcess]:
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            member = ["-m", "knltrain.bench.nodes.star_member", str(tmp_path / "run.toml")]
            ranks = [
                PeerProcess(
                    f"rank {rank}",
                    [*member, str(rank), "2", "127.0.0.1", str(port)],
                    sorted(os.sched_getaffinity(0)),
                    1,
                    python=sys.executable,
                )
                for rank in range(2)
            ]
            for each in ranks:
                stack.enter_context(each)
                each.wait_ready()
            return ranks

        yield run


def expected_losses(folder: Path, steps: int) -> list[list[float]]:
    """Of both ranks, where the mean of their gradients moves weights that are the same for both."""
    config = load_config(folder / "run.toml")
    network, images = build_network(config), build_dataset(config).train
    shares = [ShardedBatches(images, 16, rank, 2, config.seed) for rank in range(2)]
    backend, optimizer = build_backend(config, network, 8, 1), build_optimizer(config, network)
    parameters = ParameterVector(network)
    parameters.initialise(config.seed)
    gradients = [ParameterVector(network).packed for _ in range(2)]
    batch = Batch.allocate(8, network.input_shape)
    losses: list[list[float]] = [[], []]
    for step in range(steps):
        for own, share, gradient in zip(losses, shares, gradients, strict=True):
            share.fill(step, batch)
            own.append(backend.loss_and_gradient(batch, parameters.packed, gradient))
        optimizer.step(parameters.packed, np.add(*gradients) / np.float32(2), 0.05)
    return losses


@pytest.mark.slow
def test_ranks_learn_as_synchronous_sgd_does(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_process, "END_SECONDS", 60.0)
    ranks = begin()
    first = answers_of(ranks, 1, LONGEST_SECONDS)
    more = answers_of(ranks, 4, LONGEST_SECONDS)
    losses = [a["losses"] + b["losses"] for a, b in zip(first, more, strict=True)]
    assert losses == [pytest.approx(own, rel=1e-3) for own in expected_losses(tmp_path, 5)]
    assert first[0]["weights"] == first[1]["weights"] != more[0]["weights"] == more[1]["weights"]
    for answer in more:
        parts = answer["communication_seconds"] + answer["computing_seconds"]
        assert answer["communication_seconds"] > 0
        assert 0 < parts <= answer["seconds"] * (1 + 1e-6)
    assert answers_of(ranks, LEAVE, LONGEST_SECONDS) == [{}, {}]
    for each in ranks:
        each.close()
        assert each._process.returncode == 0


@pytest.mark.slow
def test_a_rank_that_is_killed_is_told_and_the_other_ended(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_process, "END_SECONDS", 0.5)
    ranks = begin()
    answers_of(ranks, 1, LONGEST_SECONDS)
    ranks[1]._process.kill()
    with pytest.raises(PeerError, match="contestant 'rank"):
        answers_of(ranks, 10_000_000, LONGEST_SECONDS)
    for each in ranks:
        each.close()
        assert each._process.returncode != 0
