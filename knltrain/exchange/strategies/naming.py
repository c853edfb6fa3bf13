"""Finds a strategy class by its name in the table of methods."""

from __future__ import annotations

from importlib import import_module

from knltrain.exchange.strategies.strategy import Strategy


def strategy_named(name: str) -> type[Strategy]:
    """Return the class MODULE.CLASS of this package, as "synchronous.SynchronousStrategy"."""
    module, _, kind = name.partition(".")
    found: object = getattr(import_module(f"{__package__}.{module}"), kind)
    assert isinstance(found, type)
    assert issubclass(found, Strategy)
    return found
