"""`knltrain bench balance`: workers of emulated speeds that share out a batch.

Each worker sleeps until its modelled time is over, so that speeds are exact and their sum is known,
whatever else the machine does.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from affinity import read_topology
from knltrain.bench.methods.one_run import RunFigures, carry_out
from knltrain.config import RunConfig
from knltrain.errors import ConfigError, KnltrainError
from knltrain.launch.signals import signals_raise

WAYS: Final = ("alone", "equal", "fitted")
"""The fastest worker alone with the whole batch; equal shares; fitted ones."""

IMAGES: Final = 1438
"""Of the digits that are trained on."""

LOSS: Final = 0.15
"""A test loss that is reached with increments and by the fastest worker alone."""

_OWN_BATCH, _LONG_STEPS, _EVALUATED_STEPS = 64, 140, 10


def run_balance_benchmark(
    speeds: Sequence[float],
    batch: int,
    steps: int,
    rounds: int,
    tell: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Train LeNet on digits by synchronous SGD with workers of these speeds, in images/s.

    Rounds alternate over `WAYS`; a row of the report has the median rate of one, and its share of
    the sum of speeds. Then each worker takes batches of its own, at its own pace, and pushes
    increments by DOWNPOUR: `increments` has the seconds until the test loss is `LOSS`, None if it
    never is, beside those of the fastest worker alone.

    Raises ConfigError for settings that no run can have, KnltrainError where a run fails,
    RunAborted when a signal asks for the end.
    """
    _check(speeds, batch)
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    times: dict[str, list[float]] = {"none": [], "downpour": []}
    with signals_raise():
        for number in range(1, rounds + 1):
            for way, rate in rates.items():
                found = _carried_out(way, _sharing(way, speeds, batch, steps))
                rate.append(found.result["images_per_second"])
                tell(f"round {number} of {rounds}, {way}: {rate[-1]:.0f} images/s")
            for method, seconds in times.items():
                found = _carried_out(method, _pushing(method, speeds, number))
                seconds.append(_seconds_to_loss(found))
                tell(f"round {number} of {rounds}, {method}: {seconds[-1]:.1f} s to loss {LOSS}")
    return {
        "machine": {"model": read_topology().model},
        "network": "lenet",
        "method": "sync_sgd",
        "speeds": list(speeds),
        "batch": batch,
        "steps": steps,
        "rounds": rounds,
        "rows": [_row(way, statistics.median(rate), sum(speeds)) for way, rate in rates.items()],
        "loss": LOSS,
        "increments": [_reached(method, statistics.median(each)) for method, each in times.items()],
    }


def _row(way: str, rate: float, of_all: float) -> dict[str, Any]:
    return {"way": way, "images_per_second": rate, "share_of_sum": rate / of_all}


def _reached(method: str, seconds: float) -> dict[str, Any]:
    return {"method": method, "seconds_to_loss": seconds if math.isfinite(seconds) else None}


def _check(speeds: Sequence[float], batch: int) -> None:
    if len(speeds) < 2:
        raise ConfigError(f"--speeds {_listed(speeds)}: expected at least two, of unequal workers")
    if batch % len(speeds) or batch > IMAGES:
        raise ConfigError(
            f"--batch {batch}: expected a multiple of the {len(speeds)} workers, for equal shares, "
            f"and at most the {IMAGES} images"
        )


def _listed(speeds: Sequence[float]) -> str:
    return ",".join(f"{each:g}" for each in speeds)


def _carried_out(told: str, config: RunConfig) -> RunFigures:
    found = carry_out(config)
    if found.failure is not None:
        raise KnltrainError(f"the run '{told}' failed: {found.failure}")
    return found


def _seconds_to_loss(found: RunFigures) -> float:
    reached = (each["seconds"] for each in found.tests if each["loss"] <= LOSS)
    return next(reached, math.inf)


def _sharing(way: str, speeds: Sequence[float], batch: int, steps: int) -> RunConfig:
    of_workers = [max(speeds)] if way == "alone" else list(speeds)
    shares = "fitted" if way == "fitted" else "equal"
    return _configuration(
        of_workers,
        train={"steps": steps, "batch": batch},
        exchange={"method": "sync_sgd"},
        evaluation={"every_epochs": 0},
        balance={"shares": shares},
    )


def _pushing(method: str, speeds: Sequence[float], seed: int) -> RunConfig:
    """All take batches of one size; the run has the steps of the fastest worker."""
    of_workers = [max(speeds)] if method == "none" else list(speeds)
    termination = "each" if method == "none" else "fastest"
    return _configuration(
        of_workers,
        train={"steps": _LONG_STEPS, "batch": _OWN_BATCH * len(of_workers)},
        exchange={"method": method, "termination": termination},
        optimizer={"momentum": 0.0},
        evaluation={"every_steps": _EVALUATED_STEPS},
        seed=seed,
    )


def _configuration(speeds: Sequence[float], **given: Any) -> RunConfig:
    return RunConfig.model_validate(
        {
            "workers": len(speeds),
            "network": {"name": "lenet"},
            "data": {"name": "digits"},
            "learning_rate": {"base": 0.02},
            "backend": {"threads": 1},
            "checkpoint": {"every_epochs": 0},
            "placement": {"pin": False},
            **given,
            "balance": {**given.get("balance", {}), "emulated_images_per_second": list(speeds)},
        }
    )
