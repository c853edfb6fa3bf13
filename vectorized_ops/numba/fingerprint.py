"""What a kernel was made from, as one short text that is the same in every process.

Numba's own key sees a kernel's code and closure, but neither the values of globals nor the kernels
that it calls, and the closure by pickles that differ from process to process where kernels are in
it. Here all of that is followed to its end.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import _lru_cache_wrapper
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, final

import numpy as np
from llvmlite import ir
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.types import Type

_PLAIN = (type(None), bool, int, float, complex, Fraction, str, bytes, type(Ellipsis), np.dtype)


def fingerprint(function: Callable[..., Any]) -> str:
    """Return 64 hexadecimal digits that tell Python functions apart by all that is compiled.

    That is: its code, closure, defaults, the globals that it names, and all of this again for the
    kernels, intrinsics and functions among them that are of the same top-level package. Source
    positions and files do not count, nor does what is found as an attribute of a module or class.
    Raises TypeError for a value that is of no kind known here: what else it holds may differ from
    process to process, and change within one.
    """
    text = _Walk(function).text(function)
    return hashlib.sha256(text.encode()).hexdigest()


@final
class _Walk:
    """Follows references, each function once: kernels may call themselves."""

    def __init__(self, root: Callable[..., Any]) -> None:
        self._package = _package(root)
        self._seen: dict[int, int] = {}

    def text(self, value: Any) -> str:
        """Describe any value that a kernel may refer to."""
        if isinstance(value, Dispatcher):
            options = sorted(value.targetoptions.items())
            return f"kernel {options!r} {self._function(value.py_func)}"
        if isinstance(value, _Intrinsic):
            return f"intrinsic {self._function(value._defn)}"
        if isinstance(value, _lru_cache_wrapper):
            return f"cached {self.text(value.__wrapped__)}"
        if isinstance(value, FunctionType):
            ours = _package(value) == self._package
            return self._function(value) if ours else f"function {_name(value)}"
        if isinstance(value, CodeType):
            return self._code(value)
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, (Type, ir.Type, ir.Constant)):
            return f"{type(value).__name__} {value}"
        if isinstance(value, type):
            return f"class {value.__module__}.{value.__qualname__}"
        return self._data(value)

    def _function(self, function: FunctionType) -> str:
        if _package(function) == "numba":
            return f"function {_name(function)}"
        if id(function) in self._seen:
            return f"function {self._seen[id(function)]} again"
        self._seen[id(function)] = len(self._seen)
        parts = [_name(function), self._code(function.__code__), self.text(function.__defaults__)]
        for variable, found in sorted(_references(function), key=lambda named: named[0]):
            parts.append(f"{variable} = {self.text(found)}")
        return f"function {parts}"

    def _code(self, code: CodeType) -> str:
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        return f"{code.co_code!r} {names!r} {self._items(code.co_consts)}"

    def _data(self, value: Any) -> str:
        kind = type(value).__name__
        if isinstance(value, _PLAIN):
            return f"{kind} {value!r}"
        if isinstance(value, (tuple, list)):
            return f"{kind} {self._items(value)}"
        if isinstance(value, (set, frozenset)):
            return f"{kind} {sorted(map(self.text, value))}"
        if isinstance(value, dict):
            return f"{kind} {sorted((self.text(key), self.text(value[key])) for key in value)}"
        if isinstance(value, (np.ndarray, np.generic)):
            return f"{kind} {value.dtype!r} {value.shape} {value.tobytes()!r}"
        if isinstance(value, BuiltinFunctionType):
            return f"{kind} {value.__module__}.{value.__qualname__}"
        if dataclasses.is_dataclass(value):
            fields = (field.name for field in dataclasses.fields(value))
            return f"{kind} {[(name, self.text(getattr(value, name))) for name in fields]}"
        raise TypeError(
            f"a kernel refers to {value!r}, a {kind}: expected a number, text, array, type, "
            "function, dataclass, or a tuple, list, set or dictionary of these, by which another "
            "process can know the kernel again; pass anything else to it as an argument"
        )

    def _items(self, values: Any) -> str:
        return f"[{', '.join(map(self.text, values))}]"


def _package(function: Callable[..., Any]) -> str:
    return function.__module__.partition(".")[0]


def _name(function: FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _references(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values of the closure, as far as it is filled, and of the globals that are used."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        try:
            yield name, cell.cell_contents
        except ValueError:  # a function that is about to be defined
            continue
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names(code: CodeType) -> set[str]:
    inner = (_names(part) for part in code.co_consts if inspect.iscode(part))
    return set(code.co_names).union(*inner)
