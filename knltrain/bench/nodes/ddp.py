"""A training by PyTorch's DistributedDataParallel."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import final

from knltrain.bench.answers import answers_of
from knltrain.bench.nodes.training import LONGEST_SECONDS, Ground, Training, TrainingFigures
from knltrain.bench.step.peer_process import PeerProcess
from knltrain.bench.step.peers import MEMORY_KEPT

_PORT = 29_500
_WARM_UP_STEPS = 2
"""In the second step DDP reorders its buckets by the order in which gradients came."""


@final
class Ddp(Training):
    """DistributedDataParallel, a process for each worker; all on the first host, or on one each."""

    def __init__(self, backend: str, *, spread: bool, of_one_host: str | None = None) -> None:
        self.name = f"ddp-{backend if spread else 'one-host'}"
        self.what = f"DistributedDataParallel over {backend}"
        self.of_one_host = of_one_host
        self.by: str = backend
        self._spread = spread

    def train(self, ground: Ground, folder: Path) -> TrainingFigures:  # noqa: ARG002
        """Time steps of all ranks together, once they are warm."""
        with ExitStack() as stack:
            ranks = [
                stack.enter_context(self._rank(ground, rank)) for rank in range(ground.workers)
            ]
            for each in ranks:
                each.wait_ready()
            answers_of(ranks, _WARM_UP_STEPS, LONGEST_SECONDS)  # they meet first
            answers = answers_of(ranks, ground.steps, LONGEST_SECONDS)
        seconds = max(float(each["seconds"]) for each in answers)
        return TrainingFigures(ground.steps * ground.batch * ground.workers / seconds)

    def _rank(self, ground: Ground, rank: int) -> PeerProcess:
        way = ground.hosts.way(rank if self._spread else 0)
        place = (ground.hosts.addresses[0], str(_PORT), self.by)
        member = [sys.executable, "-m", "knltrain.bench.nodes.ddp_member", str(ground.job)]
        return PeerProcess(
            self.name,
            [*way[1:], *member, str(rank), str(ground.workers), *place],
            ground.groups[rank],
            python=way[0],
            environment=MEMORY_KEPT,
        )
