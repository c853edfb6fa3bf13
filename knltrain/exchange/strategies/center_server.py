"""What a run must be for a center that lies on servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knltrain.errors import ConfigError
from knltrain.exchange.strategies.method import Method

if TYPE_CHECKING:
    from knltrain.config import RunConfig


def check_center_run(method: Method, config: RunConfig) -> None:
    """Raise ConfigError for a wire format, or for servers that there are not."""
    nodes, chosen = config.total_nodes, config.exchange
    if nodes == 1 and chosen.servers is not None:
        raise ConfigError(
            f"exchange.servers = {list(chosen.servers)} on 1 computer, whose memory has the center "
            "alone: leave it out, or take several computers (a launcher, or nodes = 2)"
        )
    if nodes == 1:
        return
    if chosen.wire_format != "float32":
        raise ConfigError(
            f"exchange.wire_format = '{chosen.wire_format}': by '{method.name}' a contribution is "
            "added where the center lies, in float32: expected 'float32'"
        )
    if method.schedule == "lock_free" and not method.rule.adds:
        raise ConfigError(
            f"exchange.method = '{method.name}' on {nodes} computers with a center that does more "
            "than add up (exchange.center_momentum): without locks whole visits would be lost; "
            "leave that out, or take a method with locks, as async_msgd"
        )
    if missing := [node for node in chosen.servers or () if node >= nodes]:
        raise ConfigError(
            f"exchange.servers = {list(chosen.servers or ())}: there is no computer {missing[0]}; "
            f"expected some of 0 to {nodes - 1}"
        )
