"""What the loop over the steps calls, so that it need not know how a method's workers meet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from knltrain.exchange.strategies.method import Method, StrategyTraits
from knltrain.exchange.transports.team import Team
from knltrain.vectors import FloatArray

StepLayer: TypeAlias = Callable[[int, int, FloatArray, FloatArray], None]
"""Takes step t, from 0, of layer l, from 0: moves its weights (k,) by its mean gradient (k,)."""


class Strategy(StrategyTraits, ABC):
    """One worker's part in the exchanges of its run.

    A step has the moments `step_begins` and `gradient_ready`, until the end of which the local is
    W_t, and `stepped`, when it has moved by the gradient. All take the number of the step, from 0.
    Between the first two, `gradient_done_from` follows the gradient from its end to its beginning.
    """

    method: Method
    team: Team
    """All workers of the run."""

    @classmethod
    @abstractmethod
    def of(cls, method: Method, team: Team, step_layer: StepLayer) -> Strategy:
        """The part of a worker of ``team``, which was made as `StrategyTraits.join` says.

        ``step_layer`` is for those that take the step of one layer after another.
        """

    @property
    @abstractmethod
    def parameters(self) -> FloatArray:
        """This worker's parameters, (n,) float32; an exchange may make it another array."""

    @property
    @abstractmethod
    def gradient(self) -> FloatArray:
        """This worker's gradient, (n,) float32."""

    @property
    @abstractmethod
    def model(self) -> FloatArray:
        """The parameters that are evaluated and kept, (n,) float32."""

    @abstractmethod
    def start_from(self, values: FloatArray) -> None:
        """Give every vector of parameters the values (n,) of rank 0 (collective)."""

    def begin(self) -> None:
        """Set out from the center that all workers have been given: the rule may remember it."""

    def step_begins(self, step: int) -> None:
        """Begin an exchange that is due, and needs no gradient."""

    def gradient_done_from(self, offset: int) -> None:
        """Begin to exchange what is done of the gradient: all from ``offset`` on."""

    @abstractmethod
    def gradient_ready(self, step: int) -> None:
        """Exchange if it is due when the gradient of a step is ready."""

    @abstractmethod
    def stepped(self, step: int) -> None:
        """Exchange if it is due when the local has moved."""

    @abstractmethod
    def exchange(self, step: int) -> None:
        """Do now what an exchange that is due does."""

    def settle(self) -> None:
        """Return when nothing of this worker is under way to the center any more."""

    @abstractmethod
    def state(self) -> dict[str, FloatArray]:
        """What has to be kept of a run between two steps, besides locals and model; views."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all vectors, and of the memory that the workers share."""


def strategy_in(method: Method, team: Team, step_layer: StepLayer | None = None) -> Strategy:
    """How a worker of ``team`` takes part in the exchanges of ``method``."""
    kind = method.strategy
    assert issubclass(kind, Strategy)
    return kind.of(method, team, step_layer or _stays)


def _stays(_step: int, _layer: int, _weights: FloatArray, _gradient: FloatArray) -> None:
    """Take no step."""
