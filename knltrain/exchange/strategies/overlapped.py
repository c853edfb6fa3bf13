"""Exchanges of all workers at once that overlap with computing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, final

from knltrain.clocks import UNOBSERVED, Marks
from knltrain.errors import ConfigError
from knltrain.exchange.strategies.background import Background
from knltrain.exchange.strategies.method import Method, OwnSettings
from knltrain.exchange.strategies.strategy import UNTOUCHED, Moment, Touched
from knltrain.exchange.strategies.synchronous import CollectiveStrategy
from knltrain.exchange.transports.transport import CollectiveTransport
from knltrain.network.layer_slices import layer_parts, of_least_size

if TYPE_CHECKING:
    from knltrain.config.exchange_table import ExchangeConfig
    from knltrain.network.layer_slices import PackedLayers

PART_FLOATS = 2**20
"""Smaller layers are exchanged with those done before them: each exchange has a fixed cost."""


def check_gradients(method: Method) -> None:
    """Raise ConfigError unless a method exchanges gradients."""
    if method.moves != "gradient":
        raise ConfigError(
            f"{method.name}: this strategy is only for gradients, which all workers exchange "
            "together"
        )


class BackgroundStrategy(CollectiveStrategy):
    """Exchanges with all workers at once in a background thread."""

    needs_spares = True

    def __init__(self, method: Method, transport: CollectiveTransport) -> None:
        super().__init__(method, transport)
        self._background = Background("knltrain-exchange", transport.clocks.beside)

    @classmethod
    def overlapped_share(cls, method: Method) -> float:  # noqa: ARG003
        """Return 1: the whole exchange overlaps."""
        return 1.0

    def close(self) -> None:
        """End the thread, and release all vectors."""
        self._background.close()
        super().close()

    def _await_exchange(self) -> None:
        with self.team.clocks.waiting:
            self._background.wait()


@final
class OverlappedStrategy(BackgroundStrategy):
    """Exchanges while the gradient is computed from the unchanged locals (double buffering).

    Sync EASGD3 of You, Buluc, Demmel, SC17: the exchange of step t needs only W_t and the center,
    so a background thread can do it. The gradient step then starts from the exchanged locals, with
    the same bits as without overlap. A worker that is late by less than the time of a gradient
    delays no other.
    """

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse exchanges of vectors that are not ready when a step begins."""
        if method.moves != "parameters" or method.after != "gradient":
            raise ConfigError(
                f"{method.name}: only exchanges of all workers' parameters at once, from before a "
                "step, go on while its gradient is computed"
            )

    def touched(self, moment: Moment, step: int) -> Touched:  # noqa: ARG002
        """Return nothing: the thread lets the local come to the host, and sends what it made."""
        return Touched(new=False)

    def step_begins(self, step: int) -> None:
        """Begin the exchange of this step if it is due."""
        if self.method.due(step):
            self._rule.prepare(step)
            beside = self.space.beside()
            self._background.begin(lambda: self._exchange_in(beside))

    def _exchange_in(self, beside: AbstractContextManager[None]) -> None:
        """Exchange while a device computes with the local, which stays as it is meanwhile."""
        space, spare = self.space, self.transport.spare
        with beside:
            space.to_host(self.transport.local)
            self.transport.exchange_beside(self._rule)
            space.take(spare)

    def gradient_ready(self, step: int) -> None:
        """Wait for the exchange, and switch to the locals that it has computed."""
        if self.method.due(step):
            self._await_exchange()
            self.transport.swap()

    def exchange(self, step: int) -> None:
        """Exchange from beginning to end, whether or not it is due."""
        self._rule.prepare(step)
        self.transport.exchange_beside(self._rule)
        self.transport.swap()


@final
class LayerwiseStrategy(BackgroundStrategy):
    """Exchanges the gradient layer by layer, while the layers before are computed.

    The overlap of CaffeGPI (Kuehn, Keuper, Pfreundt, arXiv 1706.00095) and of the SNU thesis
    (Kim, 2020). All workers exchange the same parts in the same order, from the last to the first.
    A part is exchanged when all workers have computed it. The result has the same bits as an
    exchange of these parts after the backward pass.
    """

    takes_parts = True
    hears_of_parts = True

    @classmethod
    def own_settings(cls, chosen: ExchangeConfig, network: PackedLayers) -> OwnSettings:
        """Return the parts: each layer, or small layers together with those done before them."""
        parts, fusion = layer_parts(network), chosen.fusion_kib
        least = PART_FLOATS if fusion is None else fusion * 2**10 // 4
        if chosen.packing == "per_layer":
            if fusion is not None:
                raise ConfigError(
                    f"exchange.fusion_kib = {fusion} with exchange.packing = 'per_layer', by which "
                    "each layer is exchanged alone: expected one of them"
                )
            return {"parts": parts}
        return {"parts": of_least_size(parts, least)}

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse what is not computed layer by layer."""
        check_gradients(method)

    def __init__(self, method: Method, transport: CollectiveTransport) -> None:
        super().__init__(method, transport)
        self._parts = method.parts[::-1]
        self._begun = 0
        self._marks: Marks = UNOBSERVED

    def touched(self, moment: Moment, step: int) -> Touched:  # noqa: ARG002
        """Return the gradient, whose last part is done then."""
        return Touched((self.transport.local,)) if moment == "gradient" else UNTOUCHED

    @property
    def exchanged_parts(self) -> Sequence[slice]:
        """All parts, from the last one on."""
        return self._parts

    def observe(self, marks: Marks, beside: Marks) -> None:  # noqa: ARG002
        """Mark when a part is handed to the thread."""
        self._marks = marks

    def step_begins(self, step: int) -> None:
        """Prepare the rule for the exchanges of this step."""
        self._rule.prepare(step)
        self._marks.mark(-1)

    def gradient_done_from(self, offset: int) -> None:
        """Begin the exchanges of all parts that are done."""
        for part in self._parts[self._begun :]:
            if (part.start or 0) < offset:
                break
            self._marks.mark(self._begun)
            self._begun += 1
            self._background.begin(partial(self.transport.exchange_beside, self._rule, part))

    def gradient_ready(self, step: int) -> None:  # noqa: ARG002
        """Wait for the exchanges, and switch to the gradient that they have computed."""
        self.gradient_done_from(0)
        self._begun = 0
        self._await_exchange()
        self.transport.swap()

    def exchange(self, step: int) -> None:
        """Exchange the current gradient."""
        self.step_begins(step)
        self.gradient_ready(step)
