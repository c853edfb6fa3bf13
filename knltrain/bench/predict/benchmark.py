"""`knltrain bench predict`: steps of methods over some links, from exchanges over other ones.

What a method adds to a step on a link is measured over the links that the model is fitted to, with
one image of each worker, so that next to nothing is computed. What it adds beside that are whole
trainings over the fastest of these links. What is computed is measured by workers that never
exchange. Together these predict the steps of whole trainings over other links, measured beside.

The link changes while a training goes on. So what changes from one training to the next, as where
its memory lies and which worker comes first, is in what is fitted and in what is measured alike.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from affinity import read_topology
from knltrain.bench.exchange.cores import cores_of
from knltrain.bench.methods.entrants import entrants
from knltrain.bench.nodes.hosts import hosts
from knltrain.bench.nodes.link import link_gbytes_per_second
from knltrain.bench.predict.overlap import overlap_of
from knltrain.bench.predict.running import running
from knltrain.bench.predict.steps import (
    COMPUTING,
    Ground,
    Steps,
    configuration,
    method_of,
    waiting_of,
)
from knltrain.bench.step.bounds import bounds_of
from knltrain.bench.step.peer_process import PeerError
from knltrain.config import RunConfig
from knltrain.cost_model.method_step import MeasuredExchange
from knltrain.errors import ConfigError
from knltrain.launch.signals import signals_raise
from knltrain.launch.temporary_folder import temporary_folder

WITHIN = 0.1
"""The error that counts as met, where the rounds of a training differ by less."""

_OF_A_BASE = 4
"""Methods until computing alone is measured anew: the machine's speed changes within minutes."""

_WARM_STEPS = 16


@final
@dataclass(frozen=True, slots=True)
class Trainings:
    """What is trained: `batch` images of each of the `workers` on `nodes`, and so many `steps`.

    `workers_per_core` share a core.
    """

    network: str
    nodes: int
    workers: int
    batch: int
    steps: int
    workers_per_core: int = 1

    def run(self, method: str, *, light: bool = False) -> RunConfig:
        """The run of a method; a `light` one takes one image of each worker."""
        images = 1 if light else self.batch
        shares = self.workers_per_core > 1
        sizes = self.nodes, self.workers, images, self.steps
        return configuration(self.network, method, *sizes, shares_cores=shares)


def run_predict_benchmark(
    network: str,
    methods: Sequence[str],
    *,
    nodes: int,
    workers: int,
    gbits: Sequence[float],
    fitted_gbits: Sequence[float],
    batch: int,
    steps: int,
    rounds: int,
    workers_per_core: int = 1,
    tell: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Predict and measure steps of `methods` on `nodes` emulated hosts with a worker each.

    With one node its `workers` exchange over shared memory, and there are no links. A row has, for
    a method and a link, the seconds of a step that were `measured` (median of the rounds), those
    that are `predicted`, and those of the `naive` model, in which nothing is hidden.
    `is_met` tells whether the error is at most 10 %, or at most what the rounds differ by.
    `failures` are methods that cannot train so, with the reasons. Where `workers_per_core` are
    more than one, the wait for a core is in all of these times.

    Raises ConfigError for impossible settings, NoHosts where there can be none, PeerError when the
    training without exchanges fails, and RunAborted when a signal asks for the end; nothing is left
    behind then.
    """
    workers = nodes if nodes > 1 else workers
    links, fitted = _links(nodes, gbits, fitted_gbits)
    groups = cores_of(workers, workers_per_core, "--nodes" if nodes > 1 else "--workers")
    task = Trainings(network, nodes, workers, batch, steps, workers_per_core)
    failures, runs = _planned(task, methods)
    cpus = sorted({cpu for group in groups for cpu in group})
    found = dict[str, tuple[_Times, _Times]]()
    with signals_raise(), _ground(nodes, groups) as ground, temporary_folder() as kept:
        before = bounds_of(cpus)
        bench = _Bench(task, ground, kept.path, links, fitted, rounds, tell)
        bench.measure_links()
        for number, name in enumerate(runs):
            if number % _OF_A_BASE == 0:
                base = bench.times(COMPUTING)
            try:
                found[name] = bench.times(name), base
            except PeerError as error:
                failures[name] = str(error)
                tell(f"{name}: failed: {error}")
        bench.measure_links()
        after = bounds_of(cpus)
    rows = [
        _row(link, bench.gbytes_per_second, *found[name], fitted, runs[name])
        for name, link in product(found, links)
    ]
    errors = [abs(row["error"]) for row in rows]
    return {
        "machine": {"model": read_topology().model, "before": before, "after": after},
        "network": network,
        "nodes": nodes,
        "workers": workers,
        "workers_per_core": workers_per_core,
        "batch_per_worker": batch,
        "steps": steps,
        "rounds": rounds,
        "fitted_gbits": [each for each in fitted if each is not None],
        "rows": rows,
        "failures": failures,
        "met": sum(row["is_met"] for row in rows),
        "median_error": statistics.median(errors) if errors else None,
        "median_naive_error": statistics.median(abs(row["naive_error"]) for row in rows)
        if rows
        else None,
    }


@final
@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds of a step of a method: over each link, in each round, `light` or with all images.

    `computing` is what each worker has computed in traced steps, (P, steps).
    """

    light: Mapping[float | None, Sequence[float]]
    whole: Mapping[float | None, Sequence[float]]
    computing: npt.NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True)
class _Bench:
    """Trains `task` on a ground, over links of so many Gbit/s that change in every round."""

    task: Trainings
    ground: Ground
    folder: Path
    links: Sequence[float | None]
    fitted: Sequence[float | None]
    rounds: int
    tell: Callable[[str], None]
    speeds: dict[float, list[float]] = field(default_factory=dict)

    def measure_links(self) -> None:
        """Measure how fast the links are."""
        if (made := self.ground.hosts) is not None:
            for link in filter(None, (*self.links, *self.fitted)):
                made.limit(link)
                self.speeds.setdefault(link, []).append(link_gbytes_per_second(made))

    @property
    def gbytes_per_second(self) -> dict[float, float]:
        """10^9 bytes per second by the links' Gbit/s."""
        return {link: statistics.mean(found) for link, found in self.speeds.items()}

    def times(self, method: str) -> _Times:
        """Train by a method; PeerError if it fails."""
        light, _ = self._trained(method, self.fitted, light=True)
        whole, computing = self._trained(method, _whole_links(self.links, self.fitted), light=False)
        return _Times(light, whole, computing)

    def _trained(
        self, method: str, links: Sequence[float | None], *, light: bool
    ) -> tuple[dict[float | None, list[float]], npt.NDArray[np.float64]]:
        """Seconds of a step over each link, of each round, in one training; and its `computing`."""
        config, kind = self.task.run(method, light=light), "exchange alone" if light else "training"
        found: dict[float | None, list[float]] = {link: [] for link in links}
        with running(config, self.ground, self.folder) as training:
            training.await_step(method_of(config).every_step_until + _WARM_STEPS)
            for number, link in product(range(1, self.rounds + 1), links):
                if self.ground.hosts is not None and link is not None:
                    self.ground.hosts.limit(link)
                found[link].append(training.seconds_of_step(self.task.steps))
                where = "" if link is None else f" at {link:g} Gbit/s"
                self.tell(
                    f"{kind}{where}, round {number} of {self.rounds}, {method}: "
                    f"{1e3 * found[link][-1]:.2f} ms a step"
                )
            return found, training.computing


def _whole_links(
    links: Sequence[float | None], fitted: Sequence[float | None]
) -> list[float | None]:
    """The links of trainings with the whole batch: also the fastest one that is fitted to."""
    return list(links) if links == [None] else [_fastest(fitted), *links]


def _fastest(fitted: Sequence[float | None]) -> float:
    return max(filter(None, fitted))


def _links(
    nodes: int, gbits: Sequence[float], fitted: Sequence[float]
) -> tuple[list[float | None], list[float | None]]:
    if nodes == 1:
        return [None], [None]
    for option, values in (("--link-gbits", gbits), ("--fit-link-gbits", fitted)):
        if not values or not all(0 < each < math.inf for each in values):
            raise ConfigError(f"{option}: expected numbers above 0, as 2.5,5")
    if len(set(fitted)) < 2:
        raise ConfigError(
            "--fit-link-gbits: expected two speeds, whose difference tells of the link"
        )
    if both := set(fitted) & set(gbits):
        raise ConfigError(
            f"{min(both):g} Gbit/s in --link-gbits and in --fit-link-gbits: what the model is "
            "fitted to is not predicted; expected other speeds"
        )
    return list(gbits), list(fitted)


def _planned(
    task: Trainings, methods: Sequence[str]
) -> tuple[dict[str, str], dict[str, RunConfig]]:
    """The methods that cannot train so, with reasons, and the runs of the others."""
    failures, runs = dict[str, str](), dict[str, RunConfig]()
    for each in entrants(methods, task.workers)[1:]:
        try:
            runs[each.method] = task.run(each.method)
        except ConfigError as error:
            failures[each.method] = str(error)
    if not runs:
        raise ConfigError(next(iter(failures.values()), "--methods: expected some that exchange"))
    return failures, runs


@contextmanager
def _ground(nodes: int, groups: Sequence[Sequence[int]]) -> Iterator[Ground]:
    if nodes == 1:
        yield Ground(None, groups)
        return
    with hosts(len(groups)) as made:
        yield Ground(made, groups)


def _median(times: Mapping[float | None, Sequence[float]]) -> float:
    """The median over links that change nothing, as nothing is exchanged."""
    return statistics.median(each for rounds in times.values() for each in rounds)


def _exchange(
    own: _Times,
    base: _Times,
    speeds: Mapping[float, float],
    fitted: Sequence[float | None],
    run: RunConfig,
) -> MeasuredExchange:
    """What a method adds to the steps of `base`, which never exchanges, over links of any speed.

    Beside the link it is that of whole trainings over the fastest one, if there is one: with what
    computes, and waits for the slowest.
    """
    light = _median(base.light)
    extra = {
        1.0 if link is None else speeds[link]: statistics.median(own.light[link]) - light
        for link in fitted
    }
    least = None
    if speeds:
        least = statistics.median(own.whole[_fastest(fitted)]) - _median(base.whole)
    return MeasuredExchange(extra, light, overlap_of(run), least)


def _row(
    link: float | None,
    speeds: Mapping[float, float],
    own: _Times,
    base: _Times,
    fitted: Sequence[float | None],
    run: RunConfig,
) -> dict[str, Any]:
    method, speed = method_of(run), None if link is None else speeds[link]
    exchange = _exchange(own, base, speeds, fitted, run)
    computing, rounds = _median(base.whole), own.whole[link]
    measured = statistics.median(rounds)
    # Between hosts the wait is in the exchange.
    waiting = waiting_of([Steps(computing, base.computing)], method) if link is None else 0.0
    predicted = waiting + computing + exchange.seconds(speed, computing)
    naive = computing + exchange.seconds(speed, computing, hides=False)
    error, spread = predicted / measured - 1, (max(rounds) - min(rounds)) / measured
    return {
        "method": method.name,
        "link_gbits": link,
        "link_gbytes_per_second": speed,
        "overlaps": method.strategy.overlaps(method),
        "computing_seconds": computing,
        "waiting_seconds": waiting,
        "exchange_seconds": naive - computing,
        "least_exchange_seconds": exchange.least_seconds,
        "measured_seconds": measured,
        "of_rounds": list(rounds),
        "predicted_seconds": predicted,
        "naive_seconds": naive,
        "error": error,
        "naive_error": naive / measured - 1,
        "spread": spread,
        "is_met": abs(error) <= max(WITHIN, spread),
    }
