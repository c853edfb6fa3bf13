"""Settings of each method in the comparison, besides those that all have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """Base learning rate, and what differs from the method's defaults; `why` is a short reason."""

    learning_rate: float
    warmup_epochs: float = 0.0
    exchange: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""


_HEAVY = Settings(0.02)
"""Momentum 0.9 at each worker."""

_ELASTIC = Settings(
    0.05, 1.0, why="of the steps of P workers, P locals and the center share P / (P + 1)"
)
"""Momentum 0.9 at each worker of a synchronous elastic average.

Its exchange keeps the sum of P locals and the center, which a step of all workers moves by P of
their mean: together they go P / (P + 1) of it.
"""

_PLAIN = Settings(0.1, 1.5, why="no momentum: a larger rate, which diverges without a warm-up")

_PUSHES = Settings(0.05, 1.5, why="no momentum, and the center takes the steps of all workers")


def _every(period: int, rate: float, why: str, **more: Any) -> Settings:
    return Settings(rate, exchange={"communication_period": period, **more}, why=why)


MNIST_SETTINGS: Mapping[str, Settings] = {
    "sync_easgd": _ELASTIC,
    "sync_easgd1": _ELASTIC,
    "sync_easgd2": _ELASTIC,
    "sync_easgd3": _ELASTIC,
    "original_easgd": _PLAIN,
    "original_easgd_star": _PLAIN,
    "async_easgd": _PLAIN,
    "async_measgd": _HEAVY,
    "hogwild_easgd": _PLAIN,
    "async_sgd": _PUSHES,
    "async_msgd": Settings(0.005, why="the center's momentum, and the steps of all workers"),
    "hogwild_sgd": _PUSHES,
    "hierarchical_easgd": _ELASTIC,
    "core_groups": Settings(0.01, why="a sum of gradients, not their mean"),
    "easgd": _PLAIN,
    "eamsgd": Settings(0.02, optimizer={"momentum": 0.9}, why="0.99 is for longer trainings"),
    "downpour": _PUSHES,
    "mdownpour": Settings(
        0.005, exchange={"center_momentum": 0.9}, why="0.99 is for longer trainings"
    ),
    "adownpour": _PUSHES,
    "mvadownpour": Settings(
        0.05, 1.5, {"averaging_rate": 0.01}, why="an average of hundreds of centers, not thousands"
    ),
    "asgd": _PLAIN,
    "mvasgd": Settings(
        0.1, 1.5, {"averaging_rate": 0.01}, why="an average of hundreds of steps, not thousands"
    ),
    "seasgd": _HEAVY,
    "parameter_server": _HEAVY,
    "caffe_mpi": _HEAVY,
    "shmcaffe_h": _HEAVY,
    "local_sgd": _HEAVY,
    "post_local_sgd": _HEAVY,
    "hierarchical_sgd": _HEAVY,
    "slowmo": _every(12, 0.02, "a center that moves more often in a short training"),
    "diloco": _every(10, 0.001, "a center that moves more often in a short training"),
    "streaming_diloco": _every(
        40, 0.001, "a center that moves more often in a short training", delay_steps=2
    ),
    "sync_sgd": _HEAVY,
    "layerwise_sgd": _HEAVY,
    "caffegpi": _HEAVY,
    "none": _HEAVY,
}
"""For LeNet on MNIST, batch 64 over 2 workers, a cosine from the base rate to 0 in 8 epochs.

Found by short searches over the rate, the warm-up and the period, the same for methods that differ
in their schedule only. A rate that is good for 2 workers may be too large for many where the center
takes the steps of all.
"""

SYNTHETIC_SETTINGS: Mapping[str, Settings] = MNIST_SETTINGS
"""For CIFAR-10 quick on synthetic images, 6 epochs: the same do."""


_SHORT_PERIODS: Mapping[str, Mapping[str, Any]] = {
    "local_sgd": {"communication_period": 4},
    "hierarchical_sgd": {"communication_period": 4, "group_period": 2},
    "slowmo": {"communication_period": 4},
    "diloco": {"communication_period": 4},
    "streaming_diloco": {"communication_period": 8, "delay_steps": 1},
}

FEW_STEPS_SETTINGS: Mapping[str, Settings] = {
    name: Settings(
        settings.learning_rate / 20,
        exchange={**settings.exchange, **_SHORT_PERIODS.get(name, {})},
        optimizer=settings.optimizer,
        why="a few steps, to see what they cost",
    )
    for name, settings in MNIST_SETTINGS.items()
}
"""For GoogLeNet, which takes 8 steps: accuracy is not looked for."""
