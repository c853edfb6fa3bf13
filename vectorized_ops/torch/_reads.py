"""What a forward pass reads beside its arguments, so that it can be seen when it changes.

A graph keeps a number that was read while it was made. So everything that was read is watched:
attributes of modules, and the globals and variables of the functions that were run.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import gc
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, final

from torch import nn

from vectorized_ops.torch._snapshots import (
    FOREIGN,
    GeneratorError,
    TooLargeError,
    classes_of,
    data_of,
    is_fixed,
    snapshot,
)

_OF_EVERY_MODULE = {*nn.Module().__dict__, *dir(nn.Module)} - {"forward"}


class NotTraceableError(Exception):
    """A forward pass that a graph does not describe."""


KIND = "_class_before"
"""Where optimised classes have the class that the model had."""

_CONTAINERS = (list, dict, set, deque)
_MISSING = "missing"
_OURS = "vectorized_ops.torch."


Seen = dict[tuple[int, int], tuple[Any, bool]]
"""By identities, of values and of what they were: values, and whether they are as they were."""


@final
@dataclass(slots=True)
class Read:
    """Something that was read: its name, how to look at it again, and what it was."""

    name: str
    look: Callable[[], Any]
    value: Any
    before: Any
    is_fixed: bool
    """Whether the value cannot change inside."""

    def is_same(self, seen: Seen) -> bool:
        """Tell whether it is what it was; `seen` has what was looked at in the same call."""
        try:
            now = self.look()
            if now is self.value and self.is_fixed:
                return True
            key = id(now), id(self.before)
            if key not in seen:
                seen[key] = now, bool(snapshot(now) == self.before)
            return seen[key][1]
        except Exception:  # noqa: BLE001 (too large by now, or whatever a program's objects raise)
            return False


@final
class Reads:
    """All that one pass has read; each thing once, as it was at first."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], Read] = {}
        self._functions: dict[int, FunctionType] = {}
        self._taken: dict[int, tuple[Any, Any]] = {}
        self._run: dict[int, CodeType] = {}
        self._copies: list[tuple[Any, Any]] = []
        self.too_large: list[str] = []

    @property
    def all(self) -> tuple[Read, ...]:
        """What was read."""
        return tuple(self._found.values())

    @contextlib.contextmanager
    def noted(self, modules: set[int]) -> Iterator[None]:
        """Note what is read of these modules, by their identity, inside of the block.

        And the globals of all functions that run there, however they are come by. What the garbage
        collector would run waits. Raises NotTraceableError for what a function is about to do; once
        more after the block, as a finalizer keeps errors to itself.
        """

        def noting(module: Any, name: str) -> Any:
            if name in _OF_EVERY_MODULE or id(module) not in modules:
                return object.__getattribute__(module, name)
            self._note_attribute(module, name)
            return object.__getattribute__(module, name)

        def running(frame: FrameType, event: str, _value: object) -> None:
            try:
                if event == "call":
                    self._note_run(frame)
            except NotTraceableError as error:
                refusals.append(error)
                raise

        kind: Any = nn.Module
        refusals: list[NotTraceableError] = []
        former, collects = _profiler(), gc.isenabled()
        kind.__getattribute__ = noting
        gc.disable()
        sys.setprofile(running)
        try:
            yield
        finally:
            sys.setprofile(None)
            del kind.__getattribute__
            if collects:
                gc.enable()
            _resume(former)
        if refusals:
            raise refusals[0]

    def note_method(self, kind: Any, name: str) -> None:
        """Note a function of a class; NotTraceableError if it sets globals or others' variables."""
        self._note((id(kind), name), f"{name_of(kind)}.{name}", partial(_method, kind, name))

    def note_class(self, kind: type) -> None:
        """Note what a module's class has beside methods, and those that a graph goes past."""
        if classes_of(kind):
            self._note((id(kind), ""), name_of(kind), lambda: kind)
        for name in ("__call__", "_conv_forward"):
            if hasattr(kind, name):
                self.note_method(kind, name)

    def changed(self) -> list[str]:
        """Undo what a pass changed inside of what it read, and return the names of that."""
        names = changed(self.all)
        for container, copy in self._copies if names else ():
            _refill(container, copy)
        return names

    def _note_attribute(self, module: nn.Module, name: str) -> None:
        if module._modules.get(name) is not None:
            return
        kind: Any = type(module)
        value = None if name in module.__dict__ else inspect.getattr_static(kind, name, None)
        if isinstance(value, FunctionType):  # which `is_altered` tells from one of the instance
            self.note_method(kind, name)
        elif not _is_computed(value):
            self._note(
                (id(module), name),
                f"{name_of(kind)}.{name}",
                partial(_attribute, module, name),
            )

    def _note(self, key: tuple[int, str], name: str, look: Callable[[], Any]) -> None:
        if key in self._found:
            return
        value = look()
        try:
            before = snapshot(value, self._note_function)
            _, other = self._taken.setdefault(id(value), (value, before))
            before = other if other == before else before  # so that one look is enough
            self._found[key] = Read(name, look, value, before, is_fixed(value, before))
        except TooLargeError:
            self.too_large.append(name)
        except GeneratorError as error:  # before a number is drawn
            raise NotTraceableError(f"it reads {name}, with a random generator") from error
        if isinstance(value, type):
            self._copies += [(each, data_of(each)) for each in classes_of(value)]
            return
        inside = value if isinstance(value, _CONTAINERS) else getattr(value, "__dict__", None)
        if isinstance(inside, _CONTAINERS) and not isinstance(value, (nn.Module, ModuleType)):
            self._copies.append((inside, (dict if isinstance(inside, dict) else list)(inside)))

    def _note_function(self, function: FunctionType) -> None:
        """Note the globals and variables of a function, and of those that it calls by name."""
        if id(function) in self._functions:
            return
        self._functions[id(function)] = function
        package = str(function.__globals__.get("__name__")).partition(".")[0]
        variables = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in variables:
            if package not in FOREIGN or isinstance(_content(cell), (FunctionType, MethodType)):
                self._note((id(cell), name), name, partial(_content, cell))
        if package in FOREIGN:
            return
        chains, setters = _names_in(function.__code__)
        if setters:
            raise NotTraceableError(f"it sets {', '.join(setters)}")
        for chain in chains:
            self._note_global(function.__globals__, chain)

    def _note_run(self, frame: FrameType) -> None:
        """Note the globals of a function that is about to run; its variables are the pass's."""
        code = frame.f_code
        if id(code) in self._run:
            return
        if str(frame.f_globals.get("__name__")).partition(".")[0] in FOREIGN or _is_import(frame):
            return
        self._run[id(code)] = code
        chains, setters = _names_in(code)
        if names := sorted(set(setters) - set(code.co_freevars)):
            raise NotTraceableError(f"it sets {', '.join(names)}")
        for chain in chains:
            self._note_global(frame.f_globals, chain)

    def _note_global(self, names: dict[str, Any], chain: tuple[str, ...]) -> None:
        """Note a global, or where it is a module or a class, what is read of it by name."""
        if chain[0] not in names and hasattr(builtins, chain[0]):
            return
        path, further = list(chain[:1]), list(chain[1:])
        value = _looked_up(names, path)
        while further and isinstance(value, (ModuleType, type)) and not _is_foreign(value):
            path.append(further.pop(0))
            value = _looked_up(names, path)
        if not isinstance(value, ModuleType) or not _is_foreign(value):
            name = ".".join(path)
            self._note((id(names), name), name, partial(_looked_up, names, path))


def changed(reads: Iterable[Read]) -> list[str]:
    """Return the names of what is not as it was read."""
    seen: Seen = {}
    return [read.name for read in reads if not read.is_same(seen)]


def _profiler() -> Any:
    """Return who is told of calls; NotTraceableError for one that could not be put back."""
    profiler: Any = sys.getprofile()
    if profiler is None or callable(profiler) or hasattr(profiler, "enable"):
        return profiler
    raise NotTraceableError(f"a {type(profiler).__name__} watches its calls")


def _is_import(frame: FrameType) -> bool:
    """Tell whether a function runs for an import on the way, as PyTorch has them."""
    at: FrameType | None = frame
    while at is not None and not str(at.f_globals.get("__name__")).startswith(_OURS):
        if at.f_code.co_name == "<module>":
            return True
        at = at.f_back
    return False


def _resume(profiler: Any) -> None:
    """Let a profiler go on; that of cProfile is no function before Python 3.12."""
    if profiler is None or callable(profiler):
        sys.setprofile(profiler)
    else:
        profiler.enable()


def name_of(kind: Any) -> str:
    """Return the name that a program gave a class."""
    return str(getattr(kind, KIND, kind).__name__)


def _attribute(module: Any, name: str) -> Any:
    """Return what a module has by a name; for tensors and modules that it registers, their kind."""
    try:
        return object.__getattribute__(module, name)
    except AttributeError:
        pass
    for kind in ("_parameters", "_buffers", "_modules"):
        found = module.__dict__.get(kind, {})
        if name in found:
            return None if found[name] is None else kind
    return _MISSING


def _method(kind: Any, name: str) -> Any:
    return getattr(kind, name, _MISSING)


def _is_computed(value: Any) -> bool:
    """Tell whether what a class has is a property, whose own reads are noted."""
    return hasattr(type(value), "__set__") and not hasattr(value, "__objclass__")


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _looked_up(names: dict[str, Any], path: list[str]) -> Any:
    value = names.get(path[0], getattr(builtins, path[0], _MISSING))
    for name in path[1:]:
        value = getattr(value, name, _MISSING)
    return value


def _is_foreign(value: Any) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    known = isinstance(value, (ModuleType, type, FunctionType)) or callable(value)
    return known and (name is None or str(name).partition(".")[0] in {*FOREIGN, "builtins"})


def _names_in(code: CodeType) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the globals that code reads, with attributes taken of them, and what it sets."""
    chains: list[tuple[str, ...]] = []
    setters: list[str] = []
    open_chain = False
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            chains.append((step.argval,))
            open_chain = True
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and open_chain:
            chains[-1] = (*chains[-1], step.argval)
        elif step.opname not in ("CACHE", "PRECALL"):
            open_chain = False
        if step.opname == "STORE_GLOBAL" or (
            step.opname == "STORE_DEREF" and step.argval in code.co_freevars
        ):
            setters.append(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner, more = _names_in(constant)
            chains += inner
            setters += [name for name in more if name not in code.co_cellvars]
    return chains, setters


def _refill(container: Any, copy: Any) -> None:
    if isinstance(container, type):
        for name in data_of(container).keys() - copy.keys():
            type.__delattr__(container, name)
        for name, value in copy.items():
            if vars(container).get(name, _MISSING) is not value:
                type.__setattr__(container, name, value)
        return
    container.clear()
    container.extend(copy) if isinstance(container, (list, deque)) else container.update(copy)
