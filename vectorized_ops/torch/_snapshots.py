"""Snapshots of values, to find out later whether one was replaced or changed in place."""

from __future__ import annotations

import functools
import logging
import random
import sys
import weakref
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, final

import numpy as np
import torch
from torch import nn

_LARGEST = 2000
"""Most values inside of one that are compared, at every call of a model."""
_LARGEST_BYTES = 1 << 16

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), range, slice)
_OF_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
_OBJECTS = (nn.Module, torch.Tensor, ModuleType, BuiltinFunctionType, logging.Logger)
_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_SEQUENCES = (list, tuple, deque)
_CONTAINERS = (dict, MappingProxyType, set, frozenset, *_SEQUENCES)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)

FOREIGN = {"torch", "numpy", "vectorized_ops", *sys.stdlib_module_names} - {"__main__", "test"}
"""Packages whose functions and classes are taken to have nothing that changes."""

ATOMS = (*_PLAIN, *_OF_TORCH)
"""Types whose values cannot be changed inside."""


class TooLargeError(Exception):
    """A value that cannot be compared with what it was in little time."""


class GeneratorError(Exception):
    """What gives something else each time: a random generator, or an iterator."""


def weakly(what: Any) -> Callable[[], Any]:
    """Return a function that gives an object as long as others keep it; None afterwards."""
    try:
        return weakref.ref(what)
    except TypeError:  # numbers and the like
        return lambda: what


@final
class WeakIdentity:
    """An object that equals itself alone, and is not kept by this."""

    __slots__ = ("_identity", "_what")

    def __init__(self, what: Any) -> None:
        self._what, self._identity = weakly(what), id(what)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakIdentity) or self._identity != other._identity:
            return False
        mine = self._what()
        return mine is not None and mine is other._what()

    def __hash__(self) -> int:
        return self._identity


def snapshot(value: Any, functions: Callable[[FunctionType], None] | None = None) -> Any:
    """Return something that equals what this returns later as long as nothing has changed.

    Numbers equal those of the same type and sign. Containers and objects are looked into, and so
    are the attributes of programs' classes; tensors, modules and functions are the same or not.
    Functions that are found are handed to `functions`. Raises TooLargeError, and GeneratorError for
    random generators and iterators, also inside; and whatever the program's objects raise.
    """
    return _Look(functions).at(value)


def classes_of(kind: type) -> list[type]:
    """Return a class and those above it, as far as they are a program's own."""
    return [each for each in kind.__mro__ if str(each.__module__).partition(".")[0] not in FOREIGN]


def data_of(kind: type) -> dict[str, Any]:
    """Return the attributes of a class itself that are neither methods nor computed."""
    return {
        name: value
        for name, value in vars(kind).items()
        if not name.startswith("__") and not hasattr(type(value), "__get__")
    }


def is_fixed(value: Any, taken: Any) -> bool:
    """Tell whether nothing can change inside of a value of which this snapshot was taken."""
    if type(value) is tuple:
        return all(type(part) in ATOMS for part in value)
    return type(value) in ATOMS or isinstance(taken, WeakIdentity)


@final
class _Look:
    """One look at a value and what is in it; it looks into no classes from within a class."""

    def __init__(
        self, functions: Callable[[FunctionType], None] | None, with_classes: bool = True
    ) -> None:
        self._functions, self._left, self._inside = functions, _LARGEST, set[int]()
        self._with_classes = with_classes

    def at(self, value: Any) -> Any:
        """Return what stands for a value."""
        self._left -= 1
        if self._left < 0:
            raise TooLargeError
        kind = type(value)
        if kind in ATOMS:
            return kind, repr(value) if kind in (float, complex) else value
        if isinstance(value, FunctionType):
            if self._functions is not None:
                self._functions(value)
            return WeakIdentity(value), WeakIdentity(value.__code__), self._beside(value)
        if isinstance(value, MethodType):
            return self.at(value.__self__), self.at(value.__func__)
        if isinstance(value, _GENERATORS) or isinstance(_owner_of(value), _GENERATORS):
            raise GeneratorError("a random generator")
        if hasattr(kind, "__next__"):
            raise GeneratorError(f"an iterator ({kind.__name__})")
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, (*_OBJECTS, *_OPERATORS, Enum)):
            return WeakIdentity(value)
        if isinstance(value, (np.ndarray, np.generic)):
            return self._array(value)
        return self._inside_of(value, kind)

    def _beside(self, function: FunctionType) -> Any:
        """Return what stands for a function's defaults and attributes."""
        parts = function.__defaults__, function.__kwdefaults__, function.__dict__
        if not any(parts) or id(function) in self._inside or _package_of(function) in FOREIGN:
            return ()
        self._inside.add(id(function))
        try:
            return tuple(self.at(part) for part in parts)
        finally:
            self._inside.discard(id(function))

    def _array(self, value: Any) -> Any:
        if value.nbytes > _LARGEST_BYTES or value.dtype.hasobject:
            raise TooLargeError
        return type(value), value.shape, value.dtype.str, value.tobytes()

    def _class(self, kind: type) -> Any:
        classes = classes_of(kind) if self._with_classes else ()
        return (
            (WeakIdentity(kind), tuple(map(self._data, classes))) if classes else WeakIdentity(kind)
        )

    def _data(self, kind: type) -> Any:
        """Return what stands for the data of a class; what is too large is the same or not."""
        found: list[Any] = []
        for name, value in data_of(kind).items():
            try:
                found.append((name, _Look(self._functions, with_classes=False).at(value)))
            except (TooLargeError, GeneratorError):
                found.append((name, WeakIdentity(value)))
        return found

    def _inside_of(self, value: Any, kind: type) -> Any:
        parts = _parts(value)
        if parts is None or id(value) in self._inside:
            return WeakIdentity(value)
        self._inside.add(id(value))
        try:
            return self._class(kind), tuple(self.at(part) for part in parts)
        finally:
            self._inside.discard(id(value))


def _package_of(value: Any) -> str:
    return str(value.__module__).partition(".")[0]


def _owner_of(value: Any) -> Any:
    """Return what a method that is not written in Python belongs to."""
    return value.__self__ if isinstance(value, BuiltinFunctionType) else None


def _parts(value: Any) -> list[Any] | None:
    """Return what is in a container or an object; None for what cannot be looked into."""
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, ContextVar):
        return [value.get(None)]
    if isinstance(value, weakref.ref):
        return [value()]
    parts: list[Any] = []
    if isinstance(value, (dict, MappingProxyType)):
        parts += [part for item in value.items() for part in item]
    elif isinstance(value, (set, frozenset)):
        parts += sorted(value, key=hash)
    elif isinstance(value, _SEQUENCES):
        parts += value
    names = [name for kind in type(value).__mro__ for name in _slots(kind)]
    parts += [getattr(value, name) for name in names if hasattr(value, name)]
    attributes = getattr(value, "__dict__", None)
    if attributes is not None:  # where there are none yet, some may come
        parts.append(dict(attributes))
    if isinstance(value, _CONTAINERS):
        return parts
    return [*parts, *_memory(value)] or None


def _memory(value: Any) -> list[Any]:
    """Return what stands for the memory that an object gives away, as arrays of bytes do."""
    try:
        view = memoryview(value)
    except TypeError:
        return []
    if view.nbytes > _LARGEST_BYTES:
        raise TooLargeError
    return [view.format, view.shape, view.tobytes()]


def _slots(kind: type) -> tuple[str, ...]:
    names = kind.__dict__.get("__slots__", ())
    names = (names,) if isinstance(names, str) else tuple(names)
    own = f"_{kind.__name__.lstrip('_')}"  # which Python puts before names of the class alone
    hidden = {name for name in names if name.startswith("__") and not name.endswith("__")}
    names = tuple(own + name if name in hidden else name for name in names)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))
