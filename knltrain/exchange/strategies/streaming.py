"""Exchanges of one fragment of the vectors after another."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from knltrain.errors import ConfigError
from knltrain.exchange.strategies.method import Method, OwnSettings
from knltrain.exchange.strategies.overlapped import BackgroundStrategy
from knltrain.exchange.strategies.strategy import UNTOUCHED, Moment, Touched
from knltrain.exchange.strategies.stream import Stream
from knltrain.exchange.transports.transport import CollectiveTransport
from knltrain.network.layer_slices import fragments
from knltrain.vectors import FloatArray

if TYPE_CHECKING:
    from knltrain.config import RunConfig
    from knltrain.config.exchange_table import ExchangeConfig
    from knltrain.network.layer_slices import PackedLayers


@final
class StreamingStrategy(BackgroundStrategy):
    """Exchanges one fragment of the vectors after another, overlapped with some more steps.

    Streaming DiLoCo: each fragment has a slot in a period. ``delay`` steps before its end the
    worker copies the fragment, and a thread exchanges the copy with the others. At the end of the
    slot the worker mixes the result into the local, which has moved on.
    """

    @classmethod
    def own_settings(cls, chosen: ExchangeConfig, network: PackedLayers) -> OwnSettings:
        """Return the fragments of the configuration."""
        count, delay, mixing = chosen.fragments, chosen.delay_steps, chosen.mixing
        assert count is not None  # RunConfig has filled them in
        assert delay is not None
        assert mixing is not None
        own = super().own_settings(chosen, network)
        return {**own, "stream": Stream(fragments(network, count), delay, mixing)}

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse fragments whose slots are not whole steps."""
        if method.stream is None or method.period is None:
            raise ConfigError(f"{method.name}: expected a stream of fragments, and a period")
        method.stream.check(method.period)

    @classmethod
    def check_run(cls, method: Method, config: RunConfig) -> None:
        """Refuse top_k with mixing: what the format leaves out would be kept twice."""
        assert method.stream is not None
        if config.exchange.wire_format == "top_k" and method.stream.mixing:
            raise ConfigError(
                "exchange.wire_format = 'top_k' with exchange.mixing = "
                f"{method.stream.mixing}: what is not sent would be kept twice, by the node and in "
                "the workers' own share; expected exchange.mixing = 0, or another format, such as "
                "'int8'"
            )

    def __init__(self, method: Method, transport: CollectiveTransport) -> None:
        super().__init__(method, transport)
        assert method.stream is not None
        self._stream: Stream = method.stream

    def touched(self, moment: Moment, step: int) -> Touched:
        """Return the local: it is read where a fragment begins, and written where one ends."""
        begins, ends = self._due_after(step)
        if moment != "step" or (begins is None and ends is None):
            return UNTOUCHED
        local = (self.transport.local,)
        return Touched(local, () if ends is None else local)

    def stepped(self, step: int) -> None:
        """Begin the exchange of a fragment, or end one, if that is due."""
        begins, ends = self._due_after(step)
        if begins is not None:
            self._begin(begins, step)
        if ends is not None:
            self._mix(ends)

    def _due_after(self, step: int) -> tuple[slice | None, slice | None]:
        """The fragment that begins after a step, and the one that ends."""
        period, stream = self.method.period, self._stream
        assert period is not None
        steps = step + 1
        return stream.fragment_after(steps + stream.delay, period), stream.fragment_after(
            steps, period
        )

    def exchange(self, step: int) -> None:
        """Exchange all fragments from beginning to end."""
        for fragment in self._stream.fragments:
            self._begin(fragment, step)
            self._mix(fragment)

    def settle(self) -> None:
        """Wait for the pending fragment; its result is mixed in when it is due."""
        self._background.wait()

    def _begin(self, fragment: slice, step: int) -> None:
        self._await_exchange()
        np.copyto(self.transport.spare[fragment], self.transport.local[fragment])
        self._rule.prepare(step)
        exchange = partial(self.transport.exchange_beside, self._rule, fragment, of_locals=False)
        self._background.begin(exchange)

    def _mix(self, fragment: slice) -> None:
        self._await_exchange()
        local: FloatArray = self.transport.local[fragment]
        center = self.transport.center[fragment]
        local -= center  # by the difference: equal values stay as they are
        local *= np.float32(self._stream.mixing)
        local += center
