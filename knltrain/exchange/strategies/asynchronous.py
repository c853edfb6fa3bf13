"""Asynchronous strategies: a worker visits the center, whatever the others do."""

from __future__ import annotations

import copy
from typing import ClassVar, final

from knltrain.clocks import ACCUMULATE, PULL_LOCAL, READ_CENTER, UNOBSERVED, Marks
from knltrain.errors import ConfigError
from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.exchange.strategies.background import Background
from knltrain.exchange.strategies.method import Method, Schedule
from knltrain.exchange.strategies.strategy import (
    UNTOUCHED,
    MasterStep,
    Moment,
    Touched,
)
from knltrain.exchange.strategies.visiting import VisitingStrategy
from knltrain.exchange.transports.team import Team
from knltrain.exchange.transports.transport import WHOLE, Order, VisitedCenter
from knltrain.vectors import HOST, FloatArray, VectorSpace


class CenterStrategy(VisitingStrategy):
    """Visits the center after its own steps, without the other workers."""

    schedules: ClassVar[tuple[Schedule, ...]] = ("first_come", "round_robin", "lock_free")

    def __init__(self, method: Method, transport: VisitedCenter) -> None:
        super().__init__(method, transport)
        assert method.schedule != "synchronous"
        self._order: Order = method.schedule

    @classmethod
    def of(cls, method: Method, team: Team, step: MasterStep) -> CenterStrategy:  # noqa: ARG003
        """Make a worker's strategy; ConfigError for a transport without one center for all."""
        if not isinstance(team, VisitedCenter):
            raise ConfigError(
                f"the order '{method.schedule}' is for workers that visit one center, but here it "
                "has a replica on every node: expected a method whose workers exchange all at "
                "once, such as sync_easgd"
            )
        return cls(method, team)

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse gradients: they belong to one step of all workers."""
        if method.moves == "gradient":
            raise ConfigError(
                f"{method.name}: gradients are exchanged by all workers at once; expected the "
                f"schedule 'synchronous', got '{method.schedule}'"
            )

    @classmethod
    def sent_bytes(cls, method: Method, exchanged: int, read: int | None = None) -> int | None:
        """Return the bytes; a worker that follows the center reads it once more.

        Where the center is not a sum, or workers take turns, all its vectors are read and written.
        """
        if not method.rule.adds or (method.schedule == "round_robin" and read is None):
            return exchanged * method.rule.center_vectors
        once = exchanged // 2 if read is None else read
        return exchanged + (once if method.rule.follows else 0)

    @classmethod
    def segment_bytes(cls, method: Method, vector: int, workers: int) -> float:
        """Return the bytes of a visit, to all vectors of a center that does more than add up."""
        vectors = 1 if method.rule.adds else method.rule.center_vectors
        return vectors * super().segment_bytes(method, vector, workers)

    def begin(self) -> None:
        """Let the rule store the center."""
        self.method.rule.begin(self.transport.center, self._contribution)

    def state(self) -> dict[str, FloatArray]:
        """Return what the rule stores, the residual, and at rank 0 what belongs to the center."""
        rule, found = self.method.rule, super().state()
        if rule.remembers:
            found["contribution"] = self._contribution
        if self.transport.residual.size and not rule.takes_back:
            found["residual"] = self.transport.residual
        return found

    def _visit(self, step: int) -> None:
        self.method.rule.prepare(step)
        self.transport.visit(self.method.rule, self._contribution, self._order)


@final
class AsynchronousStrategy(CenterStrategy):
    """Visits the center after its own steps."""

    def exchange(self, step: int) -> None:
        """Exchange with the center."""
        self._visit(step)


@final
class InTurnStrategy(CenterStrategy):
    """Waits for its turn in a step with an exchange, computes the gradient, then exchanges.

    Original EASGD* of You, Buluc, Demmel, SC17: one worker after the other.
    """

    schedules = ("round_robin",)

    def step_begins(self, step: int) -> None:
        """Wait for this worker's turn."""
        if self.method.due(step):
            self.transport.await_turn()

    def exchange(self, step: int) -> None:
        """Exchange with the center."""
        self._visit(step)


@final
class OverlappedPushStrategy(CenterStrategy):
    """Contributes against the current center; a thread pushes while the worker computes.

    ShmCaffe's SEASGD:

    1. A worker reads the center (T1), which is never overlapped: a stale center would hurt. It
       moves its local and writes the increment (T2, T.A1), all in one pass over memory.
    2. It wakes its update thread (T3), which accumulates the increment in the center (T.A2 to
       T.A4) while the worker computes its next gradient (T4).

    The worker waits for the thread before the next T1; the paper waits before T2. That costs no
    time, and the center read then has all contributions of this worker.
    """

    after = "step"
    emulates_links = False
    marks_visits = True

    def __init__(self, method: Method, transport: VisitedCenter) -> None:
        super().__init__(method, transport)
        self._marks: Marks = UNOBSERVED
        self._update_thread = Background("knltrain-update", transport.clocks.beside)
        self._space: VectorSpace = HOST
        self._there: ExchangeRule | None = None
        """The rule where vectors are computed with, if that is a device on which it can."""

    @property
    def space(self) -> VectorSpace:
        """Where parameters and gradient are computed with, and locals are pulled."""
        return self._space

    @space.setter
    def space(self, space: VectorSpace) -> None:
        rule, self._space, self._there = self.method.rule, space, None
        if self.transport.residual.size and rule.takes_back:
            return  # the local takes back on the host what a wire format leaves out
        if space.arithmetic is not None and rule.computes_on_devices:
            self._there = copy.copy(rule)
            self._there.compute_on(space.arithmetic)

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse rules whose locals depend on the updated center."""
        super().check(method)
        if method.rule.follows:
            raise ConfigError(
                f"{method.name}: only workers that visit the center, by a rule whose locals do not "
                "depend on the updated center, can push in the background; expected EASGD"
            )

    @classmethod
    def overlapped_share(cls, method: Method) -> float:  # noqa: ARG003
        """Return that of the update thread's push; the center is as large, and read before it."""
        return 0.5

    def touched(self, moment: Moment, step: int) -> Touched:
        """Return nothing where the pull is on a device."""
        return super().touched(moment, step) if self._there is None else UNTOUCHED

    def exchange(self, step: int) -> None:
        """Read the center, contribute, and let the update thread push."""
        rule, transport, there = self.method.rule, self.transport, self._there
        with transport.clocks.waiting:
            self._update_thread.wait()
        rule.prepare(step)
        self._marks.mark(-1)
        transport.read_center()
        self._marks.mark(READ_CENTER)
        if there is not None:
            self._contribute_there(there)
            self._marks.mark(PULL_LOCAL)
            return
        for each, part in rule.on(WHOLE):
            local, center = transport.local[part], transport.center[part]
            each.contribute(local, center, self._contribution[part])
        transport.encode(rule, self._contribution)
        self._marks.mark(PULL_LOCAL)
        self._update_thread.begin(self._push)

    def _contribute_there(self, there: ExchangeRule) -> None:
        """Pull the local on its device; the thread lets the increment come to the host."""
        space, transport = self.space, self.transport
        space.follow(transport.center, self._contribution)
        space.changed(transport.center)
        there.contribute(transport.local, transport.center, self._contribution)
        beside = space.beside()

        def push() -> None:
            transport.push_marks.mark(-1)
            with beside:
                space.to_host(self._contribution)
            transport.encode(there, self._contribution)
            self._push_encoded()

        self._update_thread.begin(push)

    def _push(self) -> None:
        self.transport.push_marks.mark(-1)
        self._push_encoded()

    def _push_encoded(self) -> None:
        self.transport.push(self.method.rule, self._contribution, self._order)
        self.transport.push_marks.mark(ACCUMULATE)

    def observe(self, marks: Marks, beside: Marks) -> None:
        """Mark the parts of visits.

        In one node the increment is written as the local is pulled, and in a wire format encoded
        then, as the local may take back what is left out. On a device the thread does so.
        """
        self._marks, self.transport.push_marks = marks, beside

    def settle(self) -> None:
        """Wait for the update thread; raise its error if it failed."""
        self._update_thread.wait()

    def close(self) -> None:
        """End the update thread, and release all vectors."""
        self._update_thread.close()
        super().close()
