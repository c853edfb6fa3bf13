"""From the name of a strategy, as the table of methods has it, to its class."""

from __future__ import annotations

from importlib import import_module

from knltrain.exchange.strategies.strategy import Strategy


def strategy_named(name: str) -> type[Strategy]:
    """The class MODULE.CLASS of this package: "synchronous.SynchronousStrategy"."""
    module, _, kind = name.partition(".")
    found: object = getattr(import_module(f"{__package__}.{module}"), kind)
    assert isinstance(found, type)
    assert issubclass(found, Strategy)
    return found
