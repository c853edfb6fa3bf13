"""Detects changes to a single layer: hooks, or replaced methods."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn


def has_hooks(module: nn.Module) -> bool:
    """Tell whether the module has hooks of its own."""
    own = module.__dict__
    return bool(
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
    )


def is_altered(module: nn.Module) -> bool:
    """Tell whether the module has a method of its own in place of its class's."""
    kind = type(module)
    methods = _methods.get(id(kind)) or _methods_of(kind)
    return not methods.isdisjoint(module.__dict__)


def stays_whole(module: nn.Module) -> bool:
    """Tell whether to call the module as it is: it does not just do what its class does."""
    return has_hooks(module) or is_altered(module)


_methods: dict[int, frozenset[str]] = {}
"""The names of what a class can do, by the identity of the class."""
_classes: list[Any] = []
"""These classes, which keep their identities."""


def _methods_of(kind: Any) -> frozenset[str]:
    _classes.append(kind)
    found = frozenset(name for name in dir(kind) if _is_method(kind, name))
    return _methods.setdefault(id(kind), found)


def _is_method(kind: Any, name: str) -> bool:
    value = inspect.getattr_static(kind, name, None)
    is_data = name.startswith("__") or isinstance(value, type)
    return not is_data and (callable(value) or hasattr(type(value), "__get__"))
