"""A training by a parameter server: a master receives all gradients and sends the weights."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, final

from knltrain.bench.answers import answers_of
from knltrain.bench.nodes.configuration import configuration
from knltrain.bench.nodes.training import LONGEST_SECONDS, Ground, Training, TrainingFigures
from knltrain.bench.step.peer_process import PeerError, PeerProcess

LEAVE = "leave"
"""The question with which MPI ends."""

_PORT = 29_501


@final
class Star(Training):
    """A process of `star_member` on each host, with the network, data and rates of our own runs."""

    name = "star"
    by = "mpi"
    what = "a master by MPI's send and receive, as Inspur's Caffe-MPI; it computes, too"

    def __init__(self, of_one_host: str | None = None) -> None:
        self.of_one_host = of_one_host

    def train(self, ground: Ground, folder: Path) -> TrainingFigures:
        """Time steps of all ranks together, after the first."""
        file = folder / "run.toml"
        exchange = 'method = "sync_sgd"'  # which nothing heeds: a star is none of our methods
        file.write_text(configuration(ground, 1, exchange), encoding="utf-8")
        with ExitStack() as stack:
            ranks = [
                stack.enter_context(_rank(ground, file, rank)) for rank in range(ground.workers)
            ]
            for each in ranks:
                each.wait_ready()
            answers_of(ranks, 1, LONGEST_SECONDS)  # they meet, and take a step
            answers = answers_of(ranks, ground.steps, LONGEST_SECONDS)
            answers_of(ranks, LEAVE, LONGEST_SECONDS)
        return _found(ground, answers)


def _found(ground: Ground, answers: Sequence[dict[str, Any]]) -> TrainingFigures:
    if len({each["weights"] for each in answers}) > 1:
        raise PeerError("star: its ranks do not have the same weights at the end")
    seconds = max(float(each["seconds"]) for each in answers)

    def of_step(what: str) -> float:
        return statistics.mean(float(each[what]) for each in answers) / ground.steps

    return TrainingFigures(
        ground.steps * ground.batch * ground.workers / seconds,
        communication_seconds=of_step("communication_seconds"),
        computing_seconds=of_step("computing_seconds"),
        step_seconds=of_step("seconds"),
    )


def _rank(ground: Ground, file: Path, rank: int) -> PeerProcess:
    way = ground.hosts.way(rank)
    member = [sys.executable, "-m", "knltrain.bench.nodes.star_member", str(file)]
    place = [str(rank), str(ground.workers), ground.hosts.addresses[0], str(_PORT)]
    return PeerProcess(
        f"{Star.name}, rank {rank}",
        [*way[1:], *member, *place],
        ground.groups[rank],
        python=way[0],
    )
