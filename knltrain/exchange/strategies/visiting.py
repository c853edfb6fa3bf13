"""The base of strategies whose workers visit a center, in a node's memory or on servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from knltrain.errors import ConfigError
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import ThroughTransport
from knltrain.exchange.transports.transport import VisitedCenter
from knltrain.vectors import FloatArray, aligned_zeros

if TYPE_CHECKING:
    from knltrain.config import RunConfig


class VisitingStrategy(ThroughTransport[VisitedCenter]):
    """Has a contribution of its own beside its local."""

    visits_center = True

    def __init__(self, method: Method, transport: VisitedCenter) -> None:
        super().__init__(method, transport)
        self._contribution: FloatArray = aligned_zeros(transport.local.size)

    @classmethod
    def check_run(cls, method: Method, config: RunConfig) -> None:
        """Refuse servers that there are not, visits that would be lost, and some wire formats."""
        nodes, chosen = config.total_nodes, config.exchange
        servers = list(chosen.servers or ())
        if nodes == 1:
            if servers:
                raise ConfigError(
                    f"exchange.servers = {servers} on 1 computer, whose memory has the center "
                    "alone: leave it out, or take several computers (a launcher, or nodes = 2)"
                )
            return
        if chosen.wire_format != "float32":
            _check_adds(method, chosen.wire_format)
        if method.schedule == "lock_free" and not method.rule.adds:
            raise ConfigError(
                f"exchange.method = '{method.name}' on {nodes} computers with a center that does "
                "more than add up (exchange.center_momentum): without locks whole visits would be "
                "lost; leave that out, or take a method with locks, as async_msgd"
            )
        if missing := [node for node in servers if node >= nodes]:
            raise ConfigError(
                f"exchange.servers = {servers}: there is no computer {missing[0]}; expected some "
                f"of 0 to {nodes - 1}"
            )

    @classmethod
    def vectors(cls, method: Method) -> int:
        """Return 1 for the contribution, plus at most the vectors kept beside the center."""
        return 1 + super().vectors(method)

    @classmethod
    def segment_bytes(cls, method: Method, vector: int, workers: int) -> float:  # noqa: ARG003
        """Return the bytes of a visit: the center is read, and written."""
        return 2.0 * vector

    def close(self) -> None:
        """Release all vectors."""
        self._contribution = np.zeros(0, np.float32)
        super().close()


def _check_adds(method: Method, wire_format: str) -> None:
    """Refuse a wire format where more is written to the center than contributions."""
    if method.strategy.steps_at_master:
        raise ConfigError(
            f"exchange.wire_format = '{wire_format}': by '{method.name}' all workers read the "
            "weights as the master has them, in float32: expected 'float32', or 'sync_sgd', which "
            "computes the same"
        )
    if not method.rule.adds:
        raise ConfigError(
            f"exchange.wire_format = '{wire_format}': by '{method.name}' a visit writes the center "
            "and what is kept beside it back as they are, in float32: expected 'float32', or a "
            "method whose center adds up contributions, such as 'seasgd' or 'async_sgd'"
        )
