"""A rank of DDP by itself."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from knltrain.bench.step.job import write_job
from knltrain.bench.step.peer_process import PeerProcess
from knltrain.network.zoo.networks import network_named


@pytest.mark.slow
def test_ranks_step_together(tmp_path: Path) -> None:
    write_job(tmp_path, network_named("lenet"), 4, seed=1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ranks = [
        PeerProcess(
            f"rank {rank}",
            [
                *("-m", "knltrain.bench.nodes.ddp_member", str(tmp_path)),
                *(str(rank), "2", "127.0.0.1", str(port), "gloo"),
            ],
            [0],
            threads=2,
            python=sys.executable,
        )
        for rank in range(2)
    ]
    try:
        for each in ranks:
            each.wait_ready()
            assert each.ready["version"].startswith("torch ")
            assert each.ready["version"].endswith("threads: 2")  # as many as its worker has cores
        for steps in (1, 3):
            for each in ranks:
                each.ask(steps)
            for each in ranks:
                answer = each.answer()
                assert answer["steps"] == steps
                assert answer["seconds"] > 0
    finally:
        for each in ranks:
            each.close()
