"""A kernel's fingerprint: a short text of all it is made from, the same in every process.

Numba's own key covers a kernel's code and closure, but not the values of globals or the kernels
that it calls. It pickles the closure, and pickles of kernels differ from process to process. Here
all references are followed to their end, and nothing else: a changed function changes the
fingerprints of the kernels that are compiled from it, and of no others.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Set
from fractions import Fraction
from functools import _lru_cache_wrapper, cached_property
from itertools import chain
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, final

import numpy as np
from llvmlite import ir
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.types import Type

_OURS = ("knltrain", "vectorized_ops")
_BUILT_IN = {type(None), bool, int, float, str, bytes}
_PLAIN = (*_BUILT_IN, complex, Fraction, type(Ellipsis), np.dtype)


class CompiledCode(NamedTuple):
    """All that is compiled for a kernel: its `fingerprint`, bytes of Python's code and files."""

    fingerprint: str
    size: int
    sources: frozenset[str]


class _Code(NamedTuple):
    """A function's `code`, which is kept alive, its text, and the `names` in it."""

    code: CodeType
    text: str
    names: frozenset[str]


_CODES: dict[tuple[int, str | None], _Code] = {}
"""By the code's identity, and the function's docstring, which is left out of the text. All stay."""


def compiled_code(function: Callable[..., Any]) -> CompiledCode:
    """Follow all references of a kernel once."""
    walk = Walk(function)
    digest = hashlib.sha256(walk.whole().encode()).hexdigest()
    codes = [one.__code__ for one in walk.followed]
    files = frozenset(file for file in (code.co_filename for code in codes) if file[0] != "<")
    return CompiledCode(digest, sum(len(code.co_code) for code in codes), files)


def fingerprint(function: Callable[..., Any]) -> str:
    """Return 64 hexadecimal digits that identify a function by all that is compiled from it.

    These are its code, closure, defaults and the globals that it names, and the same again for the
    kernels, intrinsics and functions among them that are of our packages or of its own top-level
    package. Of such a package's classes and modules, these count: values under a name that occurs
    in the code, and all methods by which Python itself calls an object. Source positions, files and
    docstrings do not count. Raises TypeError for a value of an unknown kind: its content may differ
    from process to process, and change within one.
    """
    return compiled_code(function).fingerprint


@final
class Walk:
    """Follows references, each function once: kernels may call themselves."""

    def __init__(self, root: Callable[..., Any]) -> None:
        self._root = root
        self._packages = {_package(root), *_OURS}
        self._seen: dict[int, int] = {}
        self._names: set[str] = set()
        self._holders: dict[str, type | ModuleType] = {}
        self.followed: list[FunctionType] = []
        """What was met so far, in this order."""

    def whole(self) -> str:
        """Describe the root and all that it leads to.

        Which attributes count depends on the names in the code, and these on which attributes
        count: so it goes on until there is nothing new.
        """
        parts, known = [self.text(self._root)], set[str]()
        while fresh := {name: it for name, it in self._attributes().items() if name not in known}:
            known.update(fresh)
            parts += (
                f"{name} = {self._attribute(it)}"
                for name, it in sorted(fresh.items(), key=lambda named: named[0])
            )
        return _joined(parts)

    def text(self, value: Any) -> str:
        """Describe any value that a kernel may refer to."""
        kind = type(value)
        if kind in _BUILT_IN:  # nearly all
            return f"builtins.{kind.__name__} {value!r}"
        if kind is tuple:
            return f"builtins.tuple {self._items(value)}"
        if kind is FunctionType:
            ours = self._is_ours(value)
            return self._function(value) if ours else f"function {_name(value)}"
        if isinstance(value, Dispatcher):
            options = sorted(value.targetoptions.items())
            cache: Any = vars(value).get("_cache")
            made_by = self.text(getattr(cache, "made_by", None))
            return f"kernel {options!r} {made_by} {self._function(value.py_func)}"
        if isinstance(value, _Intrinsic):
            return f"intrinsic {self._function(value._defn)}"
        if isinstance(value, _lru_cache_wrapper):
            return f"cached {self.text(value.__wrapped__)}"
        if isinstance(value, CodeType):
            return self._code(value)
        if isinstance(value, ModuleType):
            return f"module {self._held_by(value, value.__name__)}"
        if isinstance(value, (Type, ir.Type, ir.Constant)):
            return f"{type(value).__name__} {value}"
        if isinstance(value, type):
            return f"class {self._class(value)}"
        return self._data(value)

    def _attributes(self) -> dict[str, Any]:
        """The attributes that count, as far as is known, by their full names."""
        found: dict[str, Any] = {}
        for holder, value in self._holders.items():
            kinds = value.__mro__ if isinstance(value, type) else (value,)
            for kind in filter(self._is_ours, kinds):
                for name, it in vars(kind).items():
                    if name in self._names or _is_called_by_python(name, it):
                        found.setdefault(f"{holder}.{name}", it)
        return found

    def _attribute(self, value: Any) -> str:
        if isinstance(value, (staticmethod, classmethod)):
            return self.text(value.__func__)
        if isinstance(value, property):
            return self._items((value.fget, value.fset))
        if isinstance(value, cached_property):
            return self.text(value.func)
        if inspect.isdatadescriptor(value):
            return "field"
        return self.text(value)

    def _class(self, kind: type) -> str:
        return self._held_by(kind, f"{kind.__module__}.{kind.__qualname__}")

    def _held_by(self, holder: type | ModuleType, name: str) -> str:
        if self._is_ours(holder):
            self._holders[name] = holder
        return name

    def _is_ours(self, value: Any) -> bool:
        return _package(value) in self._packages

    def _function(self, function: FunctionType) -> str:
        if _package(function) == "numba":
            return f"function {_name(function)}"
        if id(function) in self._seen:
            return f"function {self._seen[id(function)]} again"
        self._seen[id(function)] = len(self._seen)
        self.followed.append(function)
        own = self._own(function)
        self._names |= own.names
        defaults = function.__defaults__, function.__kwdefaults__
        parts = [_name(function), own.text, self._items(defaults)]
        for variable, found in sorted(_references(function, own.names), key=lambda named: named[0]):
            parts.append(f"{variable} = {self.text(found)}")
        return f"function {_joined(parts)}"

    def _own(self, function: FunctionType) -> _Code:
        """What a function's code says by itself; many kernels are compiled from the same ones."""
        key = id(function.__code__), function.__doc__
        if key not in _CODES:
            text = self._code(_undocumented(function))
            _CODES[key] = _Code(function.__code__, text, _names(function.__code__))
        return _CODES[key]

    def _code(self, code: CodeType) -> str:
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        return f"{code.co_code!r} {names!r} {self._items(code.co_consts)}"

    def _data(self, value: Any) -> str:
        kind = self._class(type(value))
        if isinstance(value, _PLAIN):
            return f"{kind} {value!r}"
        if isinstance(value, (tuple, list)):
            return f"{kind} {self._items(value)}"
        if isinstance(value, (set, frozenset)):
            return f"{kind} {_joined(sorted(map(self.text, value)))}"
        if isinstance(value, dict):
            items = sorted((self.text(key), self.text(value[key])) for key in value)
            return f"{kind} {_joined(chain.from_iterable(items))}"
        if isinstance(value, (np.ndarray, np.generic)):
            return f"{kind} {value.dtype!r} {value.shape} {value.tobytes()!r}"
        if isinstance(value, BuiltinFunctionType):
            return f"{kind} {value.__module__}.{value.__qualname__}"
        if dataclasses.is_dataclass(value):
            fields = (field.name for field in dataclasses.fields(value))
            return f"{kind} {_joined(f'{n} = {self.text(getattr(value, n))}' for n in fields)}"
        raise TypeError(
            f"a kernel refers to {value!r}, a {type(value).__name__}: expected a number, text, "
            "array, type, function, dataclass, or a tuple, list, set or dictionary of these, by "
            "which another process can know the kernel again; pass anything else to it as an "
            "argument"
        )

    def _items(self, values: Any) -> str:
        return f"[{', '.join(map(self.text, values))}]"


def _joined(parts: Iterable[str]) -> str:
    """Return texts behind their lengths, so that no others give the same.

    Escapes, as those of `repr`, would double at each level of nesting.
    """
    return "".join(f"{len(part)}:{part}" for part in parts)


def _package(value: Any) -> str:
    name = value.__name__ if isinstance(value, ModuleType) else value.__module__
    return str(name).partition(".")[0]


def _is_called_by_python(name: str, value: Any) -> bool:
    """As `__init__`, and what tells the fields of a named tuple."""
    return name == "_fields" or (isinstance(value, FunctionType) and name.startswith("__"))


def _undocumented(function: FunctionType) -> CodeType:
    """Its code, in which the docstring comes first among the constants, if it has one."""
    code, text = function.__code__, function.__doc__
    if text is not None and code.co_consts[:1] == (text,):
        return code.replace(co_consts=(None, *code.co_consts[1:]))
    return code


def _name(function: FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _references(function: FunctionType, names: Set[str]) -> Iterator[tuple[str, Any]]:
    """Names and values of the closure, as far as it is filled, and of globals with these names."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        try:
            yield name, cell.cell_contents
        except ValueError:  # a function that is about to be defined
            continue
    for name in names:
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names(code: CodeType) -> frozenset[str]:
    inner = (_names(part) for part in code.co_consts if inspect.iscode(part))
    return frozenset(code.co_names).union(*inner)
