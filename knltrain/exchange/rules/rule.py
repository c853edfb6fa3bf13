"""The interface of exchange rules: the arithmetic, independent of where the center lies.

Options for which a method may be unstable are warned of, with the published bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal, TypeAlias, TypeVar

from knltrain.vectors import Arithmetic, DeviceArithmetic, FloatArray, HostArithmetic

Moment: TypeAlias = Literal["gradient", "step"]
"""A moment of a step: its gradient is ready and the local is still W_t; or the local has moved."""


Rule = TypeVar("Rule", bound="ExchangeRule")


class ExchangeRule(ABC):
    """The arithmetic between the local of a worker, its contribution, and the center.

    An exchange has three steps. Between them a vector may be sent.

    1. A worker contributes.
    2. The center absorbs the contribution, or the sum of several in rank order, which were made
       against the same center.
    3. The worker follows.

    All arrays are float32, and none overlap. ``contribution`` (n,) is the worker's own and is not
    changed between two exchanges: a rule may store something in it. ``kept`` (C − 1, n) is what the
    rule keeps beside the center, 0 at the start. A rule works elementwise. So a transport may call
    it on stripes of the vectors, sequentially or concurrently, and the result does not depend on
    the cuts.
    """

    moves: Literal["parameters", "gradient"] = "parameters"
    """What the local is: a worker's parameters or its gradient."""

    after: Moment = "step"
    """The moment of a step when workers exchange, unless their strategy sets another."""

    center_vectors: int = 1
    """C, the number of vectors of the center: itself, and those that the rule keeps beside it."""

    follows: bool = True
    """Whether a local depends on the updated center (`follow` does something)."""

    remembers: bool = False
    """Whether ``contribution`` stores something from one exchange to the next."""

    adds: bool = False
    """Whether the center only adds up contributions, in any order."""

    takes_back: bool = False
    """Whether a local takes back what a wire format leaves out of its contribution.

    If so, the worker adds its share of the residual to the local. Otherwise the residual is kept,
    and added to the next contribution.
    """

    of_statistics: ExchangeRule | None = None
    """The rule of running statistics instead, where this one may move the center past the workers.

    A variance that is moved so may become negative. It keeps as many vectors beside the center.
    """

    statistics: tuple[slice, ...] = ()
    """Where running statistics lie in the vectors, in order."""

    arithmetic: Arithmetic = HostArithmetic()

    computes_on_devices: bool = False
    """Whether it can `compute_on` a device."""

    def compute_on(self, arithmetic: DeviceArithmetic) -> None:
        """Contribute, absorb and follow on a device from now on, on whole vectors."""
        self.arithmetic = arithmetic

    def found(self, center: FloatArray, kept: FloatArray) -> None:  # noqa: B027
        """Set up ``kept`` for the ``center`` that all start from, unless it starts at 0."""

    def model(self, center: FloatArray, kept: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the vector that is the trained model: by default the ``center``."""
        return center

    def on(self, part: slice) -> tuple[tuple[ExchangeRule, slice], ...]:
        """Cut a part of the vectors so that each piece has one rule."""
        return _cut(self, self.of_statistics, part)

    def prepare(self, step: int) -> None:  # noqa: B027
        """Prepare for the exchange of ``step``, counted from 0."""

    def begin(self, center: FloatArray, contribution: FloatArray) -> None:  # noqa: B027
        """Store in ``contribution`` what the rule needs of the ``center`` that all start from."""

    @abstractmethod
    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write the contribution of one worker to the center; may move ``local`` (n,).

        A rule that does not follow reads each element of ``center`` at most once: others may be
        writing it (`knltrain.exchange.strategies.asynchronous.OverlappedPushStrategy`).
        """

    @abstractmethod
    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Move ``center`` (n,) by a contribution, or by a sum of them."""

    @abstractmethod
    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Update ``local`` (n,) from the ``center`` (n,) after it has absorbed."""

    def visit(
        self, local: FloatArray, center: FloatArray, kept: FloatArray, contribution: FloatArray
    ) -> None:
        """Do the whole exchange of one worker that visits the center."""
        self.contribute(local, center, contribution)
        self.absorb(center, kept, contribution)
        self.follow(local, center, contribution)


class SynchronousRule(ExchangeRule):
    """A rule that can also exchange all workers at once, in one pass over the vectors."""

    of_statistics: SynchronousRule | None = None

    def on(self, part: slice) -> tuple[tuple[SynchronousRule, slice], ...]:
        """Cut a part of the vectors so that each piece has one rule."""
        return _cut(self, self.of_statistics, part)

    @abstractmethod
    def synchronise(self, locals_: FloatArray, center: FloatArray, kept: FloatArray) -> None:
        """Do one whole exchange of all workers; row r of ``locals_`` (P, n) is rank r's local.

        Rows are contiguous, ``center`` has shape (n,), ``kept`` (C − 1, n). Sums are in rank order.
        """


def _cut(rule: Rule, of_statistics: Rule | None, part: slice) -> tuple[tuple[Rule, slice], ...]:
    if of_statistics is None:
        return ((rule, part),)
    found: list[tuple[Rule, slice]] = []
    begin, end = part.start or 0, math.inf if part.stop is None else part.stop
    for statistics in rule.statistics:
        first, last = max(statistics.start, begin), min(statistics.stop, end)
        if first < last:
            if begin < first:
                found.append((rule, slice(begin, first)))
            found.append((of_statistics, slice(first, last)))
            begin = last
    if begin < end:
        found.append((rule, slice(begin, part.stop)))
    return tuple(found)


LONGEST_DOWNPOUR = 4
"""The longest period, in steps, with which Zhang, Choromanska and LeCun found DOWNPOUR stable."""


def elastic_doubts(moving_rate: float, workers: int, learning_rate: float) -> list[str]:
    """Return a warning for each bound that a moving rate α exceeds, with P workers and rate η.

    Zhang, Choromanska, LeCun 2015: on a quadratic of curvature 1, workers that take turns are
    stable for 0 <= η <= 2 and 0 <= α <= (4 - 2 η) / (4 - η), for any P. Past β = P α = 1 the
    center overshoots the mean of the workers.
    """
    doubts = []
    bound = (4 - 2 * learning_rate) / (4 - learning_rate) if learning_rate < 2 else 0.0
    if moving_rate > bound:
        doubts.append(
            f"exchange.moving_rate = {moving_rate:g} with learning rate {learning_rate:g}: past "
            f"(4 - 2 η) / (4 - η) = {bound:.4g}, up to which elastic averaging is stable on a "
            "quadratic of curvature 1"
        )
    if moving_rate * workers > 1 + 1e-6:  # 1 / P times P may exceed 1 by a rounding error
        doubts.append(
            f"exchange.moving_rate = {moving_rate:g} with {workers} workers: past 1 / workers = "
            f"{1 / workers:.4g} the center overshoots the mean of the workers (β = P α <= 1); "
            f"0.9 / workers = {0.9 / workers:.4g} is the usual choice"
        )
    return doubts


def downpour_doubts(period: int) -> list[str]:
    """Return a warning if workers drift too far apart between two pushes."""
    if period <= LONGEST_DOWNPOUR:
        return []
    return [
        f"exchange.communication_period = {period}: DOWNPOUR was found unstable at 16 and 64 "
        f"steps, and best at 1 to {LONGEST_DOWNPOUR}; elastic averaging (easgd) allows more"
    ]
