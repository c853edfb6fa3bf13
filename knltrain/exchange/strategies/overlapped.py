"""Exchanges of all workers at once that go on while the workers compute."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, final

from knltrain.errors import ConfigError
from knltrain.exchange.strategies.background import Background
from knltrain.exchange.strategies.method import Method, OwnSettings
from knltrain.exchange.strategies.synchronous import CollectiveStrategy
from knltrain.exchange.transports.collective_transport import CollectiveTransport
from knltrain.network.layer_slices import layer_parts, of_least_size

if TYPE_CHECKING:
    from knltrain.config.exchange_table import ExchangeConfig
    from knltrain.network.network import Network

PART_FLOATS = 2**20
"""Smaller layers go together with those that are done before them: each exchange has its cost."""


def check_gradients(method: Method) -> None:
    """Raise ConfigError unless a method exchanges gradients."""
    if method.moves != "gradient":
        raise ConfigError(
            f"{method.name}: only gradients that all workers exchange at once can go layer by "
            "layer while they are computed"
        )


class BackgroundStrategy(CollectiveStrategy):
    """Exchanges with all workers at once by a thread beside the computing ones."""

    needs_spares = True

    def __init__(self, method: Method, transport: CollectiveTransport) -> None:
        super().__init__(method, transport)
        self._background = Background("knltrain-exchange", transport.clocks.beside)

    @classmethod
    def overlaps(cls, method: Method) -> bool:  # noqa: ARG003
        """All of it does."""
        return True

    def close(self) -> None:
        """End the thread, and let go of all vectors."""
        self._background.close()
        super().close()

    def _await_exchange(self) -> None:
        with self.team.clocks.waiting:
            self._background.wait()


@final
class OverlappedStrategy(BackgroundStrategy):
    """Exchanges while the gradient is computed, which needs the locals as they were.

    Sync EASGD3 of You, Buluc, Demmel, SC17: the exchange of step t takes W_t and the center only,
    so that a thread beside the computing ones can do it. What it leaves are the locals of which the
    gradient step is taken, the same to the last bit as without overlap. A worker that is late by
    less than a gradient's time keeps nobody waiting.
    """

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse exchanges of what is not there yet when a step begins."""
        if method.moves != "parameters" or method.after != "gradient":
            raise ConfigError(
                f"{method.name}: only exchanges of all workers' parameters at once, from before a "
                "step, go on while its gradient is computed"
            )

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
class LayerwiseStrategy(BackgroundStrategy):
    """Exchanges the gradient layer by layer, while the layers before are computed.

    The overlap of CaffeGPI (Kuehn, Keuper, Pfreundt, arXiv 1706.00095) and of the SNU thesis
    (Kim, 2020). All workers exchange the same parts in the same order, from the last one to the
    first, each when it is done at all of them, to the bits of an exchange of these parts at the
    end.
    """

    takes_parts = True

    @classmethod
    def own_settings(cls, chosen: ExchangeConfig, network: Network) -> OwnSettings:
        """Each layer is a part, or small ones go together with those that are done before them."""
        parts = layer_parts(network)
        return {
            "parts": parts if chosen.packing == "per_layer" else of_least_size(parts, PART_FLOATS)
        }

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse what is not computed layer by layer."""
        check_gradients(method)

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
