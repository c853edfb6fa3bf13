"""The check of the momentum of rules whose center has a velocity."""

from __future__ import annotations

from knltrain.errors import ConfigError


def check_center_momentum(momentum: float, nesterov: bool = False) -> None:
    """Raise ConfigError unless 0 <= ``momentum`` < 1, and above 0 for Nesterov's form."""
    if not 0 <= momentum < 1:
        raise ConfigError(
            f"exchange.center_momentum = {momentum}: expected at least 0 and less than 1"
        )
    if nesterov and not momentum:
        raise ConfigError(
            "exchange.center_nesterov = true without exchange.center_momentum: expected a momentum "
            "above 0, or center_nesterov = false"
        )
