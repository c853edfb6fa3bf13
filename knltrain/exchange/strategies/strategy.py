"""The interface of strategies, which the training loop calls at the moments of a step.

Classes are found by their name in the table of methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

from knltrain.exchange.strategies.method import Method, StrategyTraits
from knltrain.exchange.transports.team import Team
from knltrain.vectors import FloatArray

StepLayer: TypeAlias = Callable[[int, int, FloatArray, FloatArray], None]
"""Takes step t of layer l (both from 0): moves its weights (k,) by its mean gradient (k,)."""


class Strategy(StrategyTraits, ABC):
    """One worker's part in the exchanges of its run.

    A step t has these moments; all but the second take its number, from 0.

    1. `step_begins`: the local is W_t.
    2. `gradient_done_from`, several times: the gradient is done from the end to an offset.
    3. `gradient_ready`: the whole gradient is done; the local is still W_t.
    4. `stepped`: the local has moved by the gradient.
    """

    method: Method
    team: Team
    """All workers of the run."""

    @classmethod
    @abstractmethod
    def of(cls, method: Method, team: Team, step_layer: StepLayer) -> Strategy:
        """Make the strategy of a worker of ``team``, which `StrategyTraits.join` has made.

        ``step_layer`` is for strategies that take the step layer by layer.
        """

    @property
    @abstractmethod
    def parameters(self) -> FloatArray:
        """This worker's parameters, (n,) float32; another array after some exchanges."""

    @property
    @abstractmethod
    def gradient(self) -> FloatArray:
        """This worker's gradient, (n,) float32."""

    @property
    @abstractmethod
    def model(self) -> FloatArray:
        """The parameters that are evaluated and saved, (n,) float32."""

    @abstractmethod
    def start_from(self, values: FloatArray) -> None:
        """Set every vector of parameters to the values (n,) of rank 0 (collective)."""

    def begin(self) -> None:
        """Begin the run from the common center; the rule may store it."""

    def step_begins(self, step: int) -> None:
        """Begin an exchange that is due and needs no gradient."""

    def gradient_done_from(self, offset: int) -> None:
        """Begin to exchange the part of the gradient that is done: all from ``offset`` on."""

    @abstractmethod
    def gradient_ready(self, step: int) -> None:
        """Exchange if it is due when the gradient of a step is ready."""

    @abstractmethod
    def stepped(self, step: int) -> None:
        """Exchange if it is due when the local has moved."""

    @abstractmethod
    def exchange(self, step: int) -> None:
        """Do an exchange now, whether or not it is due."""

    def settle(self) -> None:
        """Return when this worker has no pending exchanges or pushes."""

    @abstractmethod
    def state(self) -> dict[str, FloatArray]:
        """Return views of what a checkpoint needs besides locals and model."""

    @abstractmethod
    def close(self) -> None:
        """Release all vectors, and the memory that the workers share."""


def strategy_in(method: Method, team: Team, step_layer: StepLayer | None = None) -> Strategy:
    """Make the strategy of ``method`` for a worker of ``team``."""
    kind = method.strategy
    assert issubclass(kind, Strategy)
    return kind.of(method, team, step_layer or _stays)


def _stays(_step: int, _layer: int, _weights: FloatArray, _gradient: FloatArray) -> None:
    """Take no step."""


def strategy_named(name: str) -> type[Strategy]:
    """Return the class MODULE.CLASS of this package, as "synchronous.SynchronousStrategy"."""
    module, _, kind = name.partition(".")
    found: object = getattr(import_module(f"{__package__}.{module}"), kind)
    assert isinstance(found, type)
    assert issubclass(found, Strategy)
    return found
