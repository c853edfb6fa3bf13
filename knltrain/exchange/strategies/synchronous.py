"""Exchanges of all workers at once."""

from __future__ import annotations

from functools import partial
from typing import final

import numpy as np

from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.strategies.background import Background
from knltrain.exchange.strategies.method import Method, Stream
from knltrain.exchange.strategies.strategy import ThroughTransport
from knltrain.exchange.transports.collective_transport import CollectiveTransport
from knltrain.vectors import FloatArray


class SynchronousStrategy(ThroughTransport[CollectiveTransport]):
    """Exchanges with all workers at once, which share the work, or leave the center to a master."""

    def __init__(self, method: Method, transport: CollectiveTransport) -> None:
        super().__init__(method, transport)
        assert isinstance(method.rule, SynchronousRule)
        self._rule = method.rule

    def exchange(self, step: int) -> None:
        """Exchange with all workers at once, all parts of the vectors one after another."""
        self._rule.prepare(step)
        if self.method.at_master:
            self.transport.exchange_at_master(self._rule)
            return
        for part in self.method.parts:
            self.transport.exchange(self._rule, part)


class MeetsBeside(SynchronousStrategy):
    """Exchanges with all workers at once by a thread beside the computing ones."""

    def __init__(self, method: Method, transport: CollectiveTransport) -> None:
        super().__init__(method, transport)
        self._background = Background("knltrain-exchange", transport.clocks.beside)

    def close(self) -> None:
        """End the thread, and let go of all vectors."""
        self._background.close()
        super().close()

    def _await_exchange(self) -> None:
        with self.team.clocks.waiting:
            self._background.wait()


@final
class OverlappedStrategy(MeetsBeside):
    """Exchanges while the gradient is computed, which needs the locals as they were.

    Sync EASGD3 of You, Buluc, Demmel, SC17: the exchange of step t takes W_t and the center only,
    so that a thread beside the computing ones can do it. What it leaves are the locals of which the
    gradient step is taken, the same to the last bit as without overlap. A worker that is late by
    less than a gradient's time keeps nobody waiting.
    """

    def step_begins(self, step: int) -> None:
        """Let the exchange of this step begin if it is due."""
        if self.method.due(step):
            self._rule.prepare(step)
            self._background.begin(lambda: self.transport.exchange_beside(self._rule))

    def gradient_ready(self, step: int) -> None:
        """Wait for the exchange, and take over the locals that it leaves."""
        if self.method.due(step):
            self._await_exchange()
            self.transport.swap()

    def exchange(self, step: int) -> None:
        """Exchange from beginning to end, whether or not it is due."""
        self._rule.prepare(step)
        self.transport.exchange_beside(self._rule)
        self.transport.swap()


@final
class LayerwiseStrategy(MeetsBeside):
    """Exchanges the gradient layer by layer, while the layers before are computed.

    The overlap of CaffeGPI (Kuehn, Keuper, Pfreundt, arXiv 1706.00095) and of the SNU thesis
    (Kim, 2020). All workers exchange the same parts in the same order, from the last one to the
    first, each when it is done at all of them, to the bits of an exchange of these parts at the
    end.
    """

    def __init__(self, method: Method, transport: CollectiveTransport) -> None:
        super().__init__(method, transport)
        self._parts = method.parts[::-1]
        self._begun = 0

    def step_begins(self, step: int) -> None:
        """Make the rule ready for the exchanges of this step."""
        self._rule.prepare(step)

    def gradient_done_from(self, offset: int) -> None:
        """Let the exchanges of all parts begin that are done."""
        for part in self._parts[self._begun :]:
            if (part.start or 0) < offset:
                break
            self._begun += 1
            self._background.begin(partial(self.transport.exchange_beside, self._rule, part))

    def gradient_ready(self, step: int) -> None:  # noqa: ARG002
        """Wait for the exchanges, and take over what they leave."""
        self.gradient_done_from(0)
        self._begun = 0
        self._await_exchange()
        self.transport.swap()

    def exchange(self, step: int) -> None:
        """Exchange the gradient as it is."""
        self.step_begins(step)
        self.gradient_ready(step)


@final
class StreamingStrategy(MeetsBeside):
    """Exchanges one fragment of the vectors after another, each while some more steps are taken.

    Streaming DiLoCo: of a period, each fragment has a slot of its own. The worker notes where the
    fragment has come to ``delay`` steps before the end of its slot, lets a thread exchange that
    with the others, and at the end mixes what came of it into the local, which has moved on.
    """

    def __init__(self, method: Method, transport: CollectiveTransport) -> None:
        super().__init__(method, transport)
        assert method.stream is not None
        self._stream: Stream = method.stream

    def stepped(self, step: int) -> None:
        """Begin the exchange of a fragment, or end one, if that is due."""
        steps, period = step + 1, self.method.period
        assert period is not None
        if (begins := self._stream.fragment_after(steps + self._stream.delay, period)) is not None:
            self._begin(begins, step)
        if (ends := self._stream.fragment_after(steps, period)) is not None:
            self._mix(ends)

    def exchange(self, step: int) -> None:
        """Exchange all fragments from beginning to end."""
        for fragment in self._stream.fragments:
            self._begin(fragment, step)
            self._mix(fragment)

    def settle(self) -> None:
        """Wait for the fragment that is under way; what comes of it is mixed in when it is due."""
        self._background.wait()

    def _begin(self, fragment: slice, step: int) -> None:
        self._await_exchange()
        np.copyto(self.transport.spare[fragment], self.transport.local[fragment])
        self._rule.prepare(step)
        self._background.begin(
            lambda: self.transport.exchange_beside(self._rule, fragment, of_locals=False)
        )

    def _mix(self, fragment: slice) -> None:
        self._await_exchange()
        local: FloatArray = self.transport.local[fragment]
        share = np.float32(self._stream.mixing)
        local *= share
        local += (1 - share) * self.transport.center[fragment]
