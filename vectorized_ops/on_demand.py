"""Packages whose modules are imported when a name of theirs is first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, names: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package; `names` are those that each of its modules has."""
    module_of = {name: module for module, those in names.items() for name in those}

    def find(name: str) -> Any:
        if name not in module_of:
            raise _missing(package, name)
        found = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return find


def found_in(package: str, modules: tuple[str, ...]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that looks for a name in its modules, one by one.

    Those behind the one that has it are not imported: modules that most programs need come first.
    `__all__` is all names of all of them.
    """

    def find(name: str) -> Any:
        if name == "__all__":
            found: Any = [each for module in modules for each in offers(module).__all__]
        elif name in modules:
            found = offers(name)
        elif name.startswith("_"):
            raise _missing(package, name)
        else:
            having = next((each for each in map(offers, modules) if name in each.__all__), None)
            if having is None:
                raise _missing(package, name)
            found = getattr(having, name)
        setattr(sys.modules[package], name, found)
        return found

    def offers(module: str) -> Any:
        return import_module(f"{package}.{module}")

    return find


def _missing(package: str, name: str) -> AttributeError:
    return AttributeError(f"module {package!r} has no attribute {name!r}")
