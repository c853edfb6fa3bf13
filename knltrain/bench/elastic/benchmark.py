"""`knltrain bench elastic`: a loop of PyTorch by itself, and with `knltrain.elastic`, in turns.

Each worker has both loops in its process, on cores of its own, so that they differ by `Elastic`
alone. All workers run the same loop at the same time.
"""

from __future__ import annotations

import json
import os
import secrets
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from affinity import read_topology
from knltrain.bench.elastic.member import ELASTIC, PLAIN
from knltrain.bench.exchange.cores import cores_of
from knltrain.bench.exchange.crew import Crew, assembled
from knltrain.bench.step.peer_process import PeerProcess
from knltrain.errors import KnltrainError
from knltrain.launch.signals import signals_raise
from knltrain.network.zoo.networks import network_named

TURN_SECONDS = 2.0
"""A loop's part of a round is as many steps as take about so long, with whole periods."""

_TOLERANCE = 1e-5


class DifferentLosses(KnltrainError):  # noqa: N818
    """Loops whose first losses differ: their speed would mean nothing."""


def run_elastic_benchmark(
    network: str, batch: int, method: str, period: int, workers: int, rounds: int
) -> dict[str, Any]:
    """Measure steps of `batch` images per worker, in alternating `rounds`.

    The report has

    - the machine, and the bytes of a copy of the parameters;
    - the `seconds` of a step of each loop (median and all rounds);
    - the `overhead` of Elastic, by the median of the rounds' ratios.

    Raises ConfigError for impossible settings, DifferentLosses when the first losses are not the
    same, PeerError when a worker fails, and RunAborted when a signal asks for the end; nothing is
    left behind then.
    """
    described, groups = network_named(network), cores_of(workers)
    options = {"communication_period": period} if period > 1 else {}
    arguments = [network, str(batch), method, json.dumps(options)]
    with signals_raise(), ExitStack() as stack:
        crew = assembled(stack, method, _workers(groups, arguments))
        _check_losses(crew)
        seconds = _seconds(crew, rounds, period)
        version = crew.version
        crew.answers({"do": "leave"})
    ratios = [ours / plain for plain, ours in zip(seconds[PLAIN], seconds[ELASTIC], strict=True)]
    return {
        "machine": {"model": read_topology().model},
        "version": version,
        "network": network,
        "parameter_bytes": 4 * described.packed_size,
        "batch": batch,
        "method": method,
        "communication_period": period,
        "workers": workers,
        "cores_per_worker": len(groups[0]),
        "rounds": rounds,
        "rows": [
            {"loop": name, "seconds": statistics.median(taken), "round_seconds": taken}
            for name, taken in seconds.items()
        ],
        "overhead": statistics.median(ratios) - 1,
    }


def _workers(groups: Sequence[Sequence[int]], arguments: Sequence[str]) -> list[PeerProcess]:
    """Start the workers, with the variables of torchrun."""
    count = str(len(groups))
    launch = {
        "TORCHELASTIC_RUN_ID": f"bench {os.getpid()} {secrets.token_hex(4)}",
        "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count,
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "KNLTRAIN_JOB_SECRET": secrets.token_hex(32),
    }
    program = ["-m", "knltrain.bench.elastic.member", *arguments]
    return [
        PeerProcess(
            f"worker {rank}",
            [*program, str(len(cpus))],
            cpus,
            environment={**launch, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank, cpus in enumerate(groups)
    ]


def _check_losses(crew: Crew) -> None:
    """Both loops begin alike, as the first exchange has equal locals."""
    for answer in crew.answers({"do": "losses", "steps": 1}):
        plain, elastic = answer["losses"]
        if not np.allclose(plain, elastic, rtol=_TOLERANCE, atol=0):
            raise DifferentLosses(
                f"the first loss is {plain[0]} by itself, and {elastic[0]} with Elastic: expected "
                "the same"
            )


def _seconds(crew: Crew, rounds: int, period: int) -> dict[str, list[float]]:
    """Seconds of a step of each loop, in each round."""
    taken = crew.seconds("", ELASTIC, 2)
    count = period * max(1, round(TURN_SECONDS / taken / period))
    crew.seconds("", PLAIN, 2)
    found: dict[str, list[float]] = {PLAIN: [], ELASTIC: []}
    for number in range(rounds):
        for name in (PLAIN, ELASTIC) if number % 2 else (ELASTIC, PLAIN):
            found[name].append(crew.seconds("", name, count))
    return found
