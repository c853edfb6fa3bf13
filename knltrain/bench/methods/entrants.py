"""The entrants: each method with its workers, and one worker alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.assembly.names import plain_method
from knltrain.assembly.whole_run import check_period
from knltrain.bench.methods.task import EVALUATIONS_PER_EPOCH, Task
from knltrain.config import RunConfig
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError, unknown_name

ALONE = "one worker"
"""A single worker, the baseline of all."""

Scaling = Literal["strong", "weak"]
"""Whether workers share a batch, or each has one."""

_FOR_ONE = ("asgd", "mvasgd")


@dataclass(frozen=True, slots=True)
class Entrant:
    """A method in the comparison, under a name."""

    name: str
    method: str
    workers: int


def entrants(names: Sequence[str], workers: int) -> list[Entrant]:
    """One worker alone, then the methods of these names, or all of them for ("all",).

    Averages of SGD over time are for one worker. Raises ConfigError for an unknown name.
    """
    chosen = list(METHODS) if tuple(names) == ("all",) else list(dict.fromkeys(names))
    if not chosen:
        raise ConfigError("--methods: expected names as 'knltrain methods' lists them, or 'all'")
    for name in chosen:
        if name not in METHODS:
            raise ConfigError(unknown_name("--methods", name, METHODS))
    of_methods = [Entrant(name, name, 1 if name in _FOR_ONE else workers) for name in chosen]
    return [Entrant(ALONE, "none", 1), *of_methods]


@dataclass(frozen=True, slots=True)
class Learning:
    """`batch` images of all workers together, base rate, and epochs of warm-up to that rate."""

    batch: int
    rate: float
    warmup_epochs: float


def learning_of(entrant: Entrant, task: Task, scaling: Scaling) -> Learning:
    """The batch, rate and warm-up of an entrant.

    With `scaling` "strong" the workers share the task's batch. With "weak" each has as many images
    and P times the rate, after an epoch of warm-up at least, in a P-th of the steps (the linear
    scaling rule: Goyal et al., *Accurate, Large Minibatch SGD*, 2017). Workers that never meet
    learn from their own images alone, and have the rate for these. No warm-up takes more than half
    of the training.
    """
    settings = task.settings[entrant.method]
    warmup, times = settings.warmup_epochs, entrant.workers if scaling == "weak" else 1
    if times > 1:
        warmup = max(warmup, 1.0)
    apart = entrant.workers if entrant.method == "none" else 1
    return Learning(
        task.batch * times, settings.learning_rate * times / apart, min(warmup, task.epochs / 2)
    )


def configuration(
    entrant: Entrant,
    task: Task,
    *,
    threads: int | None,
    seed: int,
    link: Mapping[str, float] | None = None,
    scaling: Scaling = "strong",
) -> RunConfig:
    """The run of an entrant; `threads` are those of each worker, None: the cores, shared evenly.

    `scaling` is that of `learning_of`. Workers are pinned where there are cores for all of them.
    `link` has the keys of the table `exchange` that emulate a link between several workers. Raises
    ConfigError for settings that the method does not support, as over a link, or in so few steps.
    """
    over = {} if link is None or entrant.workers == 1 else link
    settings = task.settings[entrant.method]
    cores = len(physical_cores(read_topology(), allowed_cpus()))
    learning = learning_of(entrant, task, scaling)
    steps_per_epoch = task.train_images // learning.batch
    config = RunConfig.model_validate(
        {
            "seed": seed,
            "workers": entrant.workers,
            "network": {"name": task.network, "classes": task.classes},
            "data": dict(task.data),
            "train": {"epochs": task.epochs, "batch": learning.batch},
            "optimizer": dict(settings.optimizer),
            "learning_rate": {
                "base": learning.rate,
                "policy": "cosine",
                "warmup_steps": round(learning.warmup_epochs * steps_per_epoch),
            },
            "exchange": {"method": entrant.method, **settings.exchange, **over},
            "backend": {"threads": threads or "auto"},
            "evaluation": {"every_epochs": 1 / EVALUATIONS_PER_EPOCH},
            "placement": {"pin": entrant.workers * (threads or 1) <= cores},
        }
    )
    check_period(plain_method(config, entrant.workers), task.epochs * steps_per_epoch)
    return config
