"""The cost model's step of each method: its exchange from light steps, computing from others.

Light steps have one image of each worker, so that an exchange is nearly all that a method adds to
those without exchanges. Steps without exchanges by whole batches give computing, and the wait of
the mean worker for the slowest.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from affinity import allowed_cpus
from knltrain.bench.methods.entrants import Entrant
from knltrain.bench.predict.steps import (
    COMPUTING,
    NEVER,
    Ground,
    Steps,
    method_of,
    steps_of,
    waiting_of,
)
from knltrain.bench.step.peer_process import PeerError
from knltrain.config import RunConfig
from knltrain.launch.temporary_folder import temporary_folder

_LEAST_STEPS: Final = 30
_PERIODS: Final = 2
"""A method that exchanges every so many steps is timed over as many of its periods at least."""

_RATE: Final = 1e-6
"""By which no method diverges in few steps, from whatever images."""


def predicted_steps(
    everyone: Sequence[Entrant],
    planned: Callable[[Entrant], RunConfig],
    rounds: int,
    tell: Callable[[str], None],
) -> dict[str, float]:
    """Predict the seconds of a step of each entrant with several workers, by its name.

    Of short trainings in so many alternating rounds medians count. `planned` makes the run of an
    entrant. One whose short trainings fail is left out. Raises PeerError if those without exchanges
    do.
    """
    together = [each for each in everyone if each.workers > 1]
    if not together:
        return {}
    runs = {each.name: planned(each) for each in together}
    idle = planned(Entrant(COMPUTING, COMPUTING, together[0].workers))
    whole: list[Steps] = []
    light: dict[str, list[float]] = {COMPUTING: [], **{name: [] for name in runs}}
    failed = set[str]()
    with temporary_folder() as kept:
        for number in range(1, rounds + 1):
            tell(f"round {number} of {rounds} of short trainings, for predictions")
            whole.append(_timed(idle, kept.path, light=False))
            for name, config in {COMPUTING: idle, **runs}.items():
                if name not in failed:
                    try:
                        light[name].append(_timed(config, kept.path, light=True).seconds)
                    except PeerError:
                        if name == COMPUTING:  # without which nothing is predicted
                            raise
                        failed.add(name)
    computing = statistics.median(each.seconds for each in whole)
    alone = statistics.median(light[COMPUTING])
    found = {}
    for name, config in runs.items():
        if name not in failed:
            method = method_of(config)
            exchange = max(0.0, statistics.median(light[name]) - alone)
            found[name] = waiting_of(whole, method) + computing + exchange
    return found


def _timed(config: RunConfig, folder: Path, *, light: bool) -> Steps:
    short = RunConfig.model_validate(_short(config, light=light))
    return steps_of(short, Ground(None, [sorted(allowed_cpus())]), folder)


def _short(config: RunConfig, *, light: bool) -> Mapping[str, Any]:
    """The run of few steps, none of which is looked at but by the clocks."""
    period = method_of(config).period or 1
    steps = max(_LEAST_STEPS, _PERIODS * period) + 1
    is_idle = config.exchange.method == COMPUTING
    batch = config.total_workers if light else config.train.batch
    given = config.model_dump(exclude_unset=True)
    train = {"steps": steps, "batch": batch, "trace_steps": steps if is_idle else 0}
    return {
        **given,
        "train": train,
        "learning_rate": {"base": _RATE},
        "evaluation": NEVER,
        "checkpoint": {**NEVER, "every_minutes": 0},
        "preemption": {"signals": []},
    }
