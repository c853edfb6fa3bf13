"""The seam between the arithmetic of an exchange and the place where the center lives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, TypeAlias

from knltrain.vectors import FloatArray

Moment: TypeAlias = Literal["gradient", "step"]
"""Of a step: its gradient is ready, and the local is W_t; or the local has moved by it."""


class ExchangeRule(ABC):
    """The arithmetic between the local of a worker, what it contributes, and the center.

    Three verbs are one exchange, cut at the places where a vector may travel: a worker contributes,
    the center absorbs the contribution (or the sum of several, in rank order, that were made
    against the same center), and the worker follows.

    Every array is float32, nothing overlaps. ``contribution`` (n,) is the worker's own and stays
    untouched between two exchanges: a rule may remember something in it. ``kept`` (C − 1, n) is
    what the rule keeps beside the center, which begins at 0. A rule works element by element, so a
    transport may call it on stripes of the vectors, one after another or at the same time, and the
    result does not depend on where the stripes were cut.
    """

    moves: Literal["parameters", "gradient"] = "parameters"
    """What the local is: a worker's parameters, or its gradient."""

    after: Moment = "step"
    """When workers exchange by it, unless their strategy says otherwise."""

    center_vectors: int = 1
    """C, the vectors of the center: itself, and what the rule keeps beside it."""

    follows: bool = True
    """Whether a local reacts to what the center has become."""

    remembers: bool = False
    """Whether ``contribution`` holds something from one exchange to the next."""

    adds: bool = False
    """Whether the center does nothing but add up contributions, whoever they come from."""

    takes_back: bool = False
    """Whether a local takes back what of its contribution has not got through to the center.

    Where encoding for a link has left some of it behind, the worker adds its share of that to the
    local. Else it is kept, and goes with the next contribution.
    """

    def found(self, center: FloatArray, kept: FloatArray) -> None:  # noqa: B027
        """Set up what is ``kept`` beside the ``center`` all start from, where 0 will not do."""

    def model(self, center: FloatArray, kept: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return which of these vectors is the model that a run is after: the ``center``."""
        return center

    def prepare(self, step: int) -> None:  # noqa: B027
        """Take note of the step, from 0, whose exchange comes next."""

    def begin(self, center: FloatArray, contribution: FloatArray) -> None:  # noqa: B027
        """Set up what ``contribution`` is to remember of the ``center`` that all start from."""

    @abstractmethod
    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write what one worker wants to change about the center; may move ``local`` (n,).

        A rule that does not follow reads each element of ``center`` at most once: others may be
        writing it (`knltrain.exchange.strategies.asynchronous.OverlappedPushStrategy`).
        """

    @abstractmethod
    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Move ``center`` (n,) by a contribution, or by a sum of them."""

    @abstractmethod
    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Let ``local`` (n,) react to the ``center`` (n,) that has absorbed what there was."""

    def visit(
        self, local: FloatArray, center: FloatArray, kept: FloatArray, contribution: FloatArray
    ) -> None:
        """Do the whole exchange of one worker that comes to the center alone."""
        self.contribute(local, center, contribution)
        self.absorb(center, kept, contribution)
        self.follow(local, center, contribution)


class SynchronousRule(ExchangeRule):
    """A rule that also says what one exchange of all workers at once is, in one pass."""

    @abstractmethod
    def synchronise(self, locals_: FloatArray, center: FloatArray, kept: FloatArray) -> None:
        """Do one whole exchange of all workers, row r of ``locals_`` (P, n) being rank r's local.

        Rows are contiguous, ``center`` has shape (n,), ``kept`` (C − 1, n). Sums run in rank order.
        """
