"""`knltrain bench ddp`: steps of plain DDP over backends of torch.distributed, in turns.

The network is the three fully connected layers at the end of VGG, made narrower. They have many
parameters for little arithmetic, so the exchange of gradients takes much of a step. Each backend
has P processes, one on the cores of each worker; they are suspended while other backends run.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from affinity import read_topology
from knltrain.bench.exchange.contestants import torch_ranks
from knltrain.bench.exchange.cores import cores_of
from knltrain.bench.exchange.crew import Crew, assembled
from knltrain.errors import ConfigError, KnltrainError, unknown_name
from knltrain.launch.signals import signals_raise

BACKENDS = ("knlshm", "gloo")

TURN_SECONDS = 0.5
"""A backend's part of a round is as many steps as take about so long."""

_COMPARED_STEPS = 5
_TOLERANCE = 1e-4
"""Of losses: backends add up in different orders."""


class DifferentLosses(KnltrainError):  # noqa: N818
    """Backends whose losses of the same model differ: their speed would mean nothing."""


def run_ddp_benchmark(
    backends: Sequence[str], workers: int, width: int, batch: int, rounds: int
) -> dict[str, Any]:
    """Measure steps of `batch` images per rank over all `backends`, in alternating `rounds`.

    The report has

    - the machine, and the number of `parameters`;
    - for each backend the `losses` of all ranks in the first steps;
    - the `seconds` of a step (median and least of the rounds);
    - how many times as `fast` as each other backend it is, by the median of the rounds' ratios.

    Raises ConfigError for impossible settings, DifferentLosses when backends do not agree,
    PeerError when one fails, and RunAborted when a signal asks for the end; nothing is left behind
    then.
    """
    if not backends:
        raise ConfigError(f"--backends: expected some of {', '.join(BACKENDS)}")
    for name in backends:
        if name not in BACKENDS:
            raise ConfigError(unknown_name("--backends", name, BACKENDS))
    if width < 8 or width % 8:
        raise ConfigError(f"--width {width}: expected a multiple of 8; VGG's is 4096")
    groups = cores_of(workers)
    arguments = [str(width), str(batch)]
    with signals_raise(), ExitStack() as stack:
        crews = {
            name: assembled(
                stack, name, torch_ranks(name, "knltrain.bench.ddp.member", name, groups, arguments)
            )
            for name in dict.fromkeys(backends)
        }
        losses = {name: _losses(crew) for name, crew in crews.items()}
        _check_same(losses)
        seconds = _seconds(crews, rounds)
        versions = {name: crew.version for name, crew in crews.items()}
    return {
        "machine": {"model": read_topology().model},
        "versions": versions,
        "workers": workers,
        "cores_per_worker": len(groups[0]),
        "width": width,
        "batch": batch,
        "rounds": rounds,
        "parameters": _parameters(width),
        "rows": [_row(name, seconds, losses) for name in crews],
    }


def _losses(crew: Crew) -> list[list[float]]:
    """Losses of the first steps of each rank; sorted, as ranks answer in any order."""
    answers = crew.answers({"do": "train", "steps": _COMPARED_STEPS})
    return sorted(answer["losses"] for answer in answers)


def _check_same(losses: dict[str, list[list[float]]]) -> None:
    (first, ours), *others = losses.items()
    for name, theirs in others:
        if not np.allclose(ours, theirs, rtol=_TOLERANCE, atol=0):
            raise DifferentLosses(
                f"the losses of the first steps over {first} are {ours}, over {name} {theirs}: "
                "expected the same"
            )


def _seconds(crews: dict[str, Crew], rounds: int) -> dict[str, list[float]]:
    """Seconds of a step, in each round."""
    taken = {name: crew.seconds("", "step", 2) for name, crew in crews.items()}
    counts = {name: max(1, round(TURN_SECONDS / seconds)) for name, seconds in taken.items()}
    found: dict[str, list[float]] = {name: [] for name in crews}
    for _ in range(rounds):
        for name, crew in crews.items():
            found[name].append(crew.seconds("", "step", counts[name]))
    return found


def _row(
    name: str, seconds: dict[str, list[float]], losses: dict[str, list[list[float]]]
) -> dict[str, Any]:
    ours = seconds[name]
    return {
        "backend": name,
        "losses": losses[name],
        "seconds": statistics.median(ours),
        "least_seconds": min(ours),
        "round_seconds": ours,
        "times_as_fast_as": {
            other: statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
            for other, theirs in seconds.items()
            if other != name
        },
    }


def _parameters(width: int) -> int:
    import torch

    from knltrain.bench.ddp.member import fully_connected

    with torch.device("meta"):  # nothing but shapes
        return sum(weights.numel() for weights in fully_connected(width).parameters())
