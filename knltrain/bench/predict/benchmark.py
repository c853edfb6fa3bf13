"""`knltrain bench predict`: steps of methods over some links, from exchanges over other ones.

What a method adds to a step on a link is measured over the links that the model is fitted to, with
one image of each worker, so that next to nothing is computed. What it adds beside that are whole
trainings over the fastest of these links. What is computed is measured by workers that never
exchange. Together these predict the steps of whole trainings over other links, measured beside.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, final

from affinity import read_topology
from knltrain.bench.exchange.cores import cores_of
from knltrain.bench.methods.entrants import entrants
from knltrain.bench.nodes.hosts import hosts
from knltrain.bench.nodes.link import link_gbytes_per_second
from knltrain.bench.predict.overlap import overlap_of
from knltrain.bench.predict.steps import (
    COMPUTING,
    Ground,
    Steps,
    configuration,
    method_of,
    steps_of,
    waiting_of,
)
from knltrain.bench.step.bounds import bounds_of
from knltrain.bench.step.peer_process import PeerError
from knltrain.config import RunConfig
from knltrain.cost_model.method_step import MeasuredExchange
from knltrain.errors import ConfigError
from knltrain.exchange.strategies.method import Method
from knltrain.launch.signals import signals_raise
from knltrain.launch.temporary_folder import temporary_folder

WITHIN = 0.1
"""The error that counts as met, where the rounds of a training differ by less."""

_MOST_TIMES = 4
"""Over a link of g Gbit/s there are max(1, min(g, 4)) times as many steps, which are shorter."""


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

    def steps_over(self, link: float | None) -> int:
        """The steps over a link of so many Gbit/s."""
        return round(self.steps * max(1.0, min(link or 0.0, _MOST_TIMES)))

    def run(self, method: str, link: float | None = None, *, light: bool = False) -> RunConfig:
        """The run of a method over a link; a `light` one takes one image of each worker."""
        images = 1 if light else self.batch
        shares = self.workers_per_core > 1
        sizes = self.nodes, self.workers, images, self.steps_over(link)
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
    with signals_raise(), temporary_folder() as kept:
        before = bounds_of(cpus)
        alone = {link: _Found({name: [] for name in runs}) for link in fitted}
        found = {link: _Found({name: [] for name in runs}) for link in links}
        fastest = None if nodes == 1 else max(filter(None, fitted))
        near = _Found({name: [] for name in runs})
        # Whole rounds alternate: what changes the machine's speed in between concerns all alike.
        grounds = [(True, *each) for each in alone.items()]
        grounds += [] if fastest is None else [(False, fastest, near)]
        grounds += [(False, *each) for each in found.items()]
        for number, (light, link, into) in product(range(1, rounds + 1), grounds):
            told = f"round {number} of {rounds}"
            _over(link, task, groups, failures, kept.path, light, into, partial(_tell, tell, told))
        exchanges = _fitted(alone, near, runs)
        after = bounds_of(cpus)
    rows = [
        {
            **_row(link, found[link], exchanges[name], method_of(runs[name])),
            "steps": task.steps_over(link),
        }
        for name, link in product(runs, links)
        if name != COMPUTING and name not in failures
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
class _Found:
    """Steps by method, of each round, over a link of so many GB/s, measured in each round."""

    steps: Mapping[str, list[Steps]]
    speeds: list[float] = field(default_factory=list)

    @property
    def gbytes_per_second(self) -> float | None:
        """The median of the link's speeds; None without one."""
        return statistics.median(self.speeds) if self.speeds else None

    def median(self, method: str) -> float:
        """The median of the rounds' seconds of a step."""
        return statistics.median(each.seconds for each in self.steps[method])

    def waiting(self, method: Method) -> float:
        """Seconds of a step in which a worker waits for the slowest, by what all compute alone."""
        return waiting_of(self.steps[COMPUTING], method)


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
    failures, runs = dict[str, str](), {COMPUTING: task.run(COMPUTING)}
    for each in entrants(methods, task.workers)[1:]:
        try:
            runs[each.method] = task.run(each.method)
        except ConfigError as error:
            failures[each.method] = str(error)
    if len(runs) == 1:
        raise ConfigError(next(iter(failures.values()), "--methods: expected some that exchange"))
    return failures, runs


def _over(
    link: float | None,
    task: Trainings,
    groups: Sequence[Sequence[int]],
    failures: dict[str, str],
    folder: Path,
    light: bool,
    into: _Found,
    tell: Callable[[str, str], None],
) -> None:
    """Measure all methods once, `into` what was found; one that fails is not tried again."""
    with _ground(link, groups) as ground:
        if ground.hosts is not None:
            into.speeds.append(link_gbytes_per_second(ground.hosts))
        where = "" if link is None else f" at {link:g} Gbit/s"
        kind = f"{'exchange alone' if light else 'training'}{where}"
        for name, steps in into.steps.items():
            if name in failures:
                continue
            try:
                found = steps_of(task.run(name, link, light=light), ground, folder)
            except PeerError as error:
                if name == COMPUTING:  # without which nothing is predicted
                    raise
                failures[name] = str(error)
                tell(kind, f"{name}: failed: {error}")
                continue
            steps.append(found)
            tell(kind, f"{name}: {1e3 * found.seconds:.2f} ms a step")


def _tell(tell: Callable[[str], None], when: str, kind: str, what: str) -> None:
    tell(f"{kind}, {when}, {what}")


@contextmanager
def _ground(link: float | None, groups: Sequence[Sequence[int]]) -> Iterator[Ground]:
    if link is None:
        yield Ground(None, groups)
        return
    with hosts(len(groups), link) as made:
        yield Ground(made, groups)


def _fitted(
    light: Mapping[float | None, _Found], near: _Found, runs: Mapping[str, RunConfig]
) -> dict[str, MeasuredExchange]:
    """The exchange of each method, by its trainings without those that never exchange.

    `near` are whole trainings over the fastest link, if there is one: with what computes, and waits
    for the slowest.
    """
    exchanges = {}
    for name in runs:
        extra = {
            found.gbytes_per_second or 1.0: found.median(name) - found.median(COMPUTING)
            for found in light.values()
            if found.steps[name]
        }
        if extra:
            computing = statistics.median(found.median(COMPUTING) for found in light.values())
            least = near.median(name) - near.median(COMPUTING) if near.steps[name] else None
            exchanges[name] = MeasuredExchange(extra, computing, overlap_of(runs[name]), least)
    return exchanges


def _row(
    link: float | None, found: _Found, exchange: MeasuredExchange, method: Method
) -> dict[str, Any]:
    name, speed = method.name, found.gbytes_per_second
    computing, measured = found.median(COMPUTING), found.median(name)
    waiting = found.waiting(method) if link is None else 0.0  # else it is in the exchange
    predicted = waiting + computing + exchange.seconds(speed, computing)
    naive = computing + exchange.seconds(speed, computing, hides=False)
    rounds = [each.seconds for each in found.steps[name]]
    error, spread = predicted / measured - 1, (max(rounds) - min(rounds)) / measured
    return {
        "method": name,
        "link_gbits": link,
        "link_gbytes_per_second": speed,
        "overlaps": method.strategy.overlaps(method),
        "computing_seconds": computing,
        "waiting_seconds": waiting,
        "exchange_seconds": naive - computing,
        "least_exchange_seconds": exchange.least_seconds,
        "measured_seconds": measured,
        "of_rounds": rounds,
        "predicted_seconds": predicted,
        "naive_seconds": naive,
        "error": error,
        "naive_error": naive / measured - 1,
        "spread": spread,
        "is_met": abs(error) <= max(WITHIN, spread),
    }
