"""The cost model's step of each method: its exchange from light steps, computing from others.

Light steps have one image of each worker, so that an exchange is nearly all that a method adds to
those without exchanges. Over an emulated link, others without it tell what of this is time on the
link, which computing may hide. Steps without exchanges by whole batches give computing, and the
wait of the mean worker for the slowest.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from affinity import allowed_cpus
from knltrain.bench.methods.entrants import Entrant
from knltrain.bench.predict.overlap import overlap_of
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
from knltrain.cost_model.method_step import MeasuredExchange
from knltrain.exchange.strategies.method import Method
from knltrain.launch.temporary_folder import temporary_folder

_LEAST_STEPS: Final = 30
_PERIODS: Final = 2
"""A method that exchanges every so many steps is timed over as many of its periods at least."""

_RATE: Final = 1e-6
"""By which no method diverges in few steps, from whatever images."""

_OF_LINK: Final = ("emulated_link_gbits", "emulated_latency_us")
_LINK: Final = 1.0
"""The speed of whatever link is emulated: there is no other one to tell it from."""


def predicted_steps(
    everyone: Sequence[Entrant],
    planned: Callable[[Entrant], RunConfig],
    train_steps: Callable[[Entrant], int],
    rounds: int,
    tell: Callable[[str], None],
) -> dict[str, float]:
    """Predict the mean seconds of a step of each entrant with several workers, by its name.

    Of short trainings in so many alternating rounds medians count. `planned` makes the run of an
    entrant, which has so many `train_steps`. One whose short trainings fail is left out. Raises
    PeerError if those without exchanges do.
    """
    together = [each for each in everyone if each.workers > 1]
    if not together:
        return {}
    runs = {each.name: planned(each) for each in together}
    idle = planned(Entrant(COMPUTING, COMPUTING, together[0].workers))
    whole: list[Steps] = []
    light = {name: _of_links(config) for name, config in {COMPUTING: idle, **runs}.items()}
    seconds: dict[str, dict[float, list[float]]] = {
        name: {link: [] for link in over} for name, over in light.items()
    }
    with temporary_folder() as kept:
        for number in range(1, rounds + 1):
            tell(f"round {number} of {rounds} of short trainings, for predictions")
            whole.append(_timed(_short(idle, light=False), kept.path))
            for name in list(seconds):
                try:
                    for link, config in light[name].items():
                        seconds[name][link].append(_timed(config, kept.path).seconds)
                except PeerError:
                    if name == COMPUTING:  # without which nothing is predicted
                        raise
                    del seconds[name]
    taken = {name: _medians(of_links) for name, of_links in seconds.items()}
    return {
        each.name: _step(runs[each.name], light[each.name], taken, whole, train_steps(each))
        for each in together
        if each.name in taken
    }


def _of_links(config: RunConfig) -> dict[float, RunConfig]:
    """The light run over the link that is emulated, or over none, by the speed of the link.

    Where an exchange can hide time on a link there is one without the link, too.
    """
    method, found = method_of(config), {_LINK: _short(config, light=True)}
    if config.exchange.emulated_link_gbits is not None and method.strategy.overlaps(method):
        found[math.inf] = _short(config, light=True, left_out=_OF_LINK)
    return found


def _medians(of_links: Mapping[float, Sequence[float]]) -> dict[float, float]:
    return {link: statistics.median(rounds) for link, rounds in of_links.items()}


def _step(
    config: RunConfig,
    light: Mapping[float, RunConfig],
    taken: Mapping[str, Mapping[float, float]],
    whole: Sequence[Steps],
    steps: int,
) -> float:
    """The mean seconds of a step of a run of so many `steps`, by those that light ones have taken.

    A method may exchange in each of its first steps and seldom later. So what an exchange adds to a
    light step is weighed by how many steps have one, there and in the run.
    """
    method, timed = method_of(config), light[_LINK].train.steps
    assert timed is not None
    there = _due(method, range(1, timed))
    often = _due(method, range(steps)) / there if there else 0.0
    alone = taken[COMPUTING][_LINK]
    added = {
        link: often * (seconds - alone) for link, seconds in taken[config.exchange.method].items()
    }
    computing = statistics.median(each.seconds for each in whole)
    exchange = MeasuredExchange(added, alone, overlap_of(config)).seconds(_LINK, computing)
    return _waiting(whole, method, steps) + computing + exchange


def _due(method: Method, steps: range) -> float:
    """The share of these steps that have an exchange."""
    return sum(map(method.due, steps)) / len(steps)


def _waiting(whole: Sequence[Steps], method: Method, steps: int) -> float:
    """Seconds of a step in which a worker waits for the slowest, in the mean over so many."""
    first = min(method.every_step_until, steps) / steps
    later = (1 - first) * waiting_of(whole, method)
    return later if not first else later + first * waiting_of(whole, replace(method, period=1))


def _timed(config: RunConfig, folder: Path) -> Steps:
    return steps_of(config, Ground(None, [sorted(allowed_cpus())]), folder)


def _short(config: RunConfig, *, light: bool, left_out: Sequence[str] = ()) -> RunConfig:
    """The run of few steps, none of which is looked at but by the clocks.

    Those after the first one are whole periods. Keys of the table `exchange` can be `left_out`.
    """
    period = method_of(config).period or 1
    steps = max(math.ceil(_LEAST_STEPS / period), _PERIODS) * period + 1
    is_idle = config.exchange.method == COMPUTING
    given = config.model_dump(exclude_unset=True)
    kept = {key: value for key, value in given["exchange"].items() if key not in left_out}
    short = {
        **given,
        "exchange": kept,
        "train": {
            "steps": steps,
            "batch": config.total_workers if light else config.train.batch,
            "trace_steps": steps if is_idle else 0,
        },
        "learning_rate": {"base": _RATE},
        "evaluation": NEVER,
        "checkpoint": {**NEVER, "every_minutes": 0},
        "preemption": {"signals": []},
    }
    return RunConfig.model_validate(short)
