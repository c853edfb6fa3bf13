"""The interface of strategies, which the training loop calls at the moments of a step.

Classes are found by their name in the table of methods. Most have one transport.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar, final

import numpy as np

from knltrain.clocks import Marks
from knltrain.exchange.strategies.method import Method, StrategyTraits
from knltrain.exchange.transports.team import Team
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import HOST, FloatArray, VectorSpace, aligned_zeros

Moment: TypeAlias = Literal["begin", "gradient", "step"]
"""A moment of a step when a strategy may exchange: its call `step_begins` and so on."""


class Touched(NamedTuple):
    """The vectors that a strategy reads on the host at a moment, and those that it writes.

    Arrays that take the place of others are `new` on the host, unless the strategy has sent them.
    """

    read: tuple[FloatArray, ...] = ()
    written: tuple[FloatArray, ...] = ()
    new: bool = True


UNTOUCHED = Touched()


@final
@dataclass(frozen=True, slots=True)
class MasterStep:
    """The step of one worker for all, within an exchange.

    `take(t, l, weights, gradient)` takes step t of layer l (both from 0) by one thread, while the
    worker computes: it moves the layer's weights (k,) by its mean gradient (k,). If it `needs_all`,
    l is 0 and both are whole vectors. `take_all(t, weights, gradient)` moves all (n,), while
    nothing is computed, by all threads.
    """

    take: Callable[[int, int, FloatArray, FloatArray], None]
    take_all: Callable[[int, FloatArray, FloatArray], None]
    needs_all: bool = False


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
    space: VectorSpace = HOST
    """Where parameters and gradient are computed with."""

    @classmethod
    @abstractmethod
    def of(cls, method: Method, team: Team, step: MasterStep) -> Strategy:
        """Make the strategy of a worker of ``team``, which `StrategyTraits.join` has made.

        ``step`` is for strategies that `steps_at_master`.
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

    def restore(
        self, center: FloatArray, local: FloatArray, kept: Mapping[str, FloatArray]
    ) -> None:
        """Go on from vectors (n,) and from what `state` had then (collective).

        What ``kept`` lacks is what the rule derives from the center.
        """
        self.start_from(center)
        self.parameters[:] = local
        self.begin()
        for name, vector in self.state().items():
            if name in kept:
                vector[:] = kept[name]

    def touched(self, moment: Moment, step: int) -> Touched:  # noqa: ARG002
        """What the call of this moment touches of `parameters` and `gradient`.

        Also what is written until the next call.
        """
        both = self.parameters, self.gradient
        return Touched(both, both)

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

    @property
    def exchanged_parts(self) -> Sequence[slice]:
        """The parts of the gradient that are exchanged by themselves, in the order of exchanges."""
        return ()

    def observe(self, marks: Marks, beside: Marks) -> None:
        """Mark, from now on, when each of these parts is ready to be exchanged.

        Or the parts of a visit (`knltrain.clocks.VISIT`), by strategies that say so
        (`marks_visits`); those of a thread beside the worker's go to `beside`. There strategies
        that say so (`marks_arrivals`) mark when what became of a part has come.
        """

    def settle(self) -> None:
        """Return when this worker has no pending exchanges or pushes."""

    @abstractmethod
    def state(self) -> dict[str, FloatArray]:
        """Return views of what a checkpoint needs besides locals and model."""

    @abstractmethod
    def close(self) -> None:
        """Release all vectors, and the memory that the workers share."""


def strategy_in(method: Method, team: Team, step: MasterStep | None = None) -> Strategy:
    """Make the strategy of ``method`` for a worker of ``team``."""
    kind = method.strategy
    assert issubclass(kind, Strategy)
    return kind.of(method, team, step or MasterStep(_stays, _stays))


def _stays(*_: object) -> None:
    """Take no step."""


def strategy_named(name: str) -> type[Strategy]:
    """Return the class MODULE.CLASS of this package, as "synchronous.SynchronousStrategy"."""
    module, _, kind = name.partition(".")
    found: object = getattr(import_module(f"{__package__}.{module}"), kind)
    assert isinstance(found, type)
    assert issubclass(found, Strategy)
    return found


AnyTransport = TypeVar("AnyTransport", bound=Transport, covariant=True)


class ThroughTransport(Strategy, Generic[AnyTransport]):
    """Exchanges through one transport; its local is the vector that the method moves."""

    def __init__(self, method: Method, transport: AnyTransport) -> None:
        self.method = method
        self.team = self.transport = transport
        self._own = aligned_zeros(transport.local.size)

    @property
    def parameters(self) -> FloatArray:
        """The transport's local, or a vector of its own if the method moves gradients."""
        return self.transport.local if self.method.moves == "parameters" else self._own

    @property
    def gradient(self) -> FloatArray:
        """A vector of its own, or the transport's local if the method moves gradients."""
        return self._own if self.method.moves == "parameters" else self.transport.local

    @property
    def model(self) -> FloatArray:
        """The rule's model, usually the center; if gradients move, this worker's parameters."""
        if self.method.moves == "gradient":
            return self._own
        return self.method.rule.model(self.transport.center, self.transport.kept)

    def start_from(self, values: FloatArray) -> None:
        """Set the center and every local to the values of rank 0 (collective)."""
        leads = self.transport.rank == 0
        self.transport.start_from(values if leads else None)
        if self.transport.keeps_center:
            self.method.rule.found(self.transport.center, self.transport.kept)
        self._publish()
        if self.method.moves == "gradient":
            np.copyto(self._own, self.transport.center)

    def restore(
        self, center: FloatArray, local: FloatArray, kept: Mapping[str, FloatArray]
    ) -> None:
        """Go on from these vectors, all of them known to all others (collective)."""
        super().restore(center, local, kept)
        self._publish()

    def _publish(self) -> None:
        """Let all find what is kept beside the center before one of them exchanges (collective)."""
        if self.method.rule.center_vectors == 1:
            return
        if self.transport.keeps_center:
            self.transport.publish()
        self.transport.all_sum(np.zeros(1))  # no barrier, at which copies are read anew

    def touched(self, moment: Moment, step: int) -> Touched:
        """Return the transport's local, where an exchange on the host is due."""
        if not self.transport.on_host:
            return UNTOUCHED
        if moment != self.method.after or not self.method.due(step):
            return UNTOUCHED
        local = (self.transport.local,)
        return Touched(local, local)

    def gradient_ready(self, step: int) -> None:
        """Exchange if it is due when the gradient of a step is ready."""
        if self.method.after == "gradient" and self.method.due(step):
            self.exchange(step)

    def stepped(self, step: int) -> None:
        """Exchange if it is due when the local has moved."""
        if self.method.after == "step" and self.method.due(step):
            self.exchange(step)

    def state(self) -> dict[str, FloatArray]:
        """Return, at a worker that keeps the center, the vectors beside it and the residual.

        Also the center itself, if it is not the model.
        """
        if not self.transport.keeps_center:
            return {}
        found = {f"kept{number}": each for number, each in enumerate(self.transport.kept)}
        if self.transport.residual.size and not self.method.rule.takes_back:
            found["residual"] = self.transport.residual
        if (
            self.method.rule.model(self.transport.center, self.transport.kept)
            is self.transport.center
        ):
            return found
        return {**found, "center": self.transport.center}

    def close(self) -> None:
        """Release all vectors."""
        self._own = np.zeros(0, np.float32)
        self.transport.close()
