"""`knltrain bench methods`: every method on the same images, until all have seen as many.

A run is that of `knltrain train`. Rounds alternate over the methods. Each round has its own seed,
which determines the parameters, the order of the images and their shifts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from affinity import read_topology
from knltrain.assembly.names import network_size, plain_method
from knltrain.bench.methods.entrants import (
    ALONE,
    Entrant,
    Scaling,
    configuration,
    entrants,
    learning_of,
)
from knltrain.bench.methods.one_run import RunFigures, carry_out
from knltrain.bench.methods.prediction import predicted_steps
from knltrain.bench.methods.report import rows
from knltrain.bench.methods.task import task_named
from knltrain.config import RunConfig
from knltrain.errors import ConfigError
from knltrain.launch.signals import signals_raise
from vectorized_ops.shapes import FLOAT_BYTES


def run_methods_benchmark(
    network: str,
    data_root: str | None,
    methods: Sequence[str],
    workers: int,
    rounds: int,
    *,
    epochs: int | None = None,
    accuracy: float | None = None,
    threads: int | None = None,
    link: Mapping[str, float] | None = None,
    scaling: Scaling = "strong",
    predicts: bool = False,
    tell: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Train by all `methods` in `rounds` alternating rounds; `tell` is called after each run.

    - `epochs` and `accuracy` default to those of the task;
    - `threads` are those of each worker;
    - `link` has the keys of the table `exchange` for an emulated link;
    - `scaling` says whether workers share a batch or each has one;
    - `predicts` asks for the speed that the cost model foresees, by short trainings before.

    A method that cannot train with these settings is a row with its `failure`. Raises ConfigError
    where none can, what `train` raises before a worker is started, and RunAborted when a signal
    asks for the end; nothing is left behind then.
    """
    task = task_named(network, data_root)
    everyone = entrants(methods, workers)
    asked = task.accuracy if accuracy is None else accuracy
    if not 0 < asked <= 1:
        raise ConfigError(f"--accuracy {asked}: expected a share above 0, at most 1")
    task = replace(task, epochs=epochs or task.epochs)
    runs: dict[str, list[RunFigures]] = {each.name: [] for each in everyone}

    def planned(entrant: Entrant, seed: int) -> RunConfig:
        return configuration(entrant, task, threads=threads, seed=seed, link=link, scaling=scaling)

    def train_steps(entrant: Entrant) -> int:
        return task.epochs * (task.train_images // learning_of(entrant, task, scaling).batch)

    refused = _refused(everyone, planned)
    able = [each for each in everyone if each.name not in refused]
    moved = {each.name: _moved_bytes(planned(each, 1)) for each in able}
    with signals_raise():
        foreseen: dict[str, float] = {}
        if predicts:
            foreseen = predicted_steps(
                able, partial(planned, seed=1), train_steps, min(rounds, 3), tell
            )
        for seed in range(1, rounds + 1):
            for each in everyone:
                found = refused.get(each.name) or carry_out(planned(each, seed))
                runs[each.name].append(found)
                tell(f"round {seed} of {rounds}, {each.name}: {_in_short(found)}")
    return {
        "machine": {"model": read_topology().model},
        "network": task.network,
        "data": dict(task.data),
        "batch": task.batch,
        "scaling": scaling,
        "epochs": task.epochs,
        "workers": workers,
        "rounds": rounds,
        "asked_accuracy": asked,
        "emulated_link": None if link is None else dict(link),
        "rows": rows(everyone, runs, task, asked, scaling, foreseen, moved),
    }


def _refused(
    everyone: Sequence[Entrant], planned: Callable[[Entrant, int], RunConfig]
) -> dict[str, RunFigures]:
    """Methods that cannot train so, found before any run; ConfigError if none can."""
    refused: dict[str, RunFigures] = {}
    for each in everyone:
        try:
            planned(each, 1)
        except ConfigError as error:
            refused[each.name] = RunFigures({}, (), str(error))
            if len(refused) == len(everyone) - 1 and ALONE not in refused:
                raise
    return refused


def _moved_bytes(config: RunConfig) -> float:
    """What all workers move over the segment in a step behind the first ones."""
    workers = int(config.workers)
    method = plain_method(config, workers)
    vector = FLOAT_BYTES * network_size(config)
    return workers * method.segment_bytes(vector, workers, method.every_step_until)


def _in_short(found: RunFigures) -> str:
    if found.failure is not None:
        return f"failed: {found.failure}"
    result = found.result
    return f"{result['test_accuracy']:.2%} in {result['train_seconds']:.1f} s"
