"""Watches what a forward pass reads beside its arguments, to notice when it changes.

A graph keeps the values that were read while it was traced. So all that was read is watched:
attributes of modules, and the globals and variables of the functions that were run.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import inspect
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, final

from torch import Tensor, nn

from vectorized_ops.torch import _looks as looks
from vectorized_ops.torch._snapshots import (
    FOREIGN,
    GeneratorError,
    TooLargeError,
    classes_of,
    data_of,
    is_fixed,
    snapshot,
    weakly,
)

_INSIDE = {"__dict__": (), "_parameters": looks.OF_MODULES, "_buffers": looks.OF_MODULES}
"""What is read of modules by which PyTorch works, and through what functions of PyTorch."""


class NotTraceableError(Exception):
    """A forward pass that a graph cannot describe."""


KIND = "_class_before"
"""Where optimised classes have the class that the model had."""

_CONTAINERS = (list, dict, set, deque)
_NUMBERS = (bool, int, float, str)


Seen = dict[tuple[int, int], tuple[Any, bool]]
"""By identities, of values and of what they were: values, and whether they are as they were."""


@final
@dataclass(slots=True)
class Read:
    """Something that was read: its name, how to look at it again, and what it was."""

    name: str
    look: Callable[[], Any]
    before: Any
    fixed: Any
    """What was read, if nothing can change inside of it: then it is compared in no other way."""
    code: CodeType | None
    """The code of a function that has nothing beside it, which `function` gives while it lives."""
    function: Callable[[], Any]

    def is_same(self, seen: Seen) -> bool:
        """Tell whether it is what it was; `seen` has what was looked at in the same call."""
        try:
            now = self.look()
            if now is self.fixed or (self.code is not None and self._is_function(now)):
                return True
            key = id(now), id(self.before)
            if key not in seen:
                seen[key] = now, bool(snapshot(now) == self.before)
            return seen[key][1]
        except Exception:  # noqa: BLE001 (too large by now, or whatever a program's objects raise)
            return False

    def _is_function(self, now: Any) -> bool:
        return now is self.function() and looks.code_alone(now) is self.code


_NOTHING = object()


@final
class Reads:
    """All that one pass has read; each thing once, as it was at first."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], Read] = {}
        self._functions: dict[int, FunctionType] = {}
        self._taken: dict[int, tuple[Any, Any]] = {}
        self._run: dict[int, CodeType] = {}
        self._copies: list[tuple[Any, Any]] = []
        self._places: dict[int, list[tuple[nn.Module, str]]] = defaultdict(list)
        self._looking: set[tuple[int, str]] = set()
        self._refusals: list[NotTraceableError] = []
        self.too_large: list[str] = []
        self.held: dict[int, Tensor] = {}
        """Tensors of the model that the pass has not read by a name there, by identity."""

    def refusal(self, text: str) -> NotTraceableError:
        """Return an error to be raised; a pass that keeps errors to itself is refused as well."""
        self._refusals.append(NotTraceableError(text))
        return self._refusals[-1]

    @property
    def all(self) -> tuple[Read, ...]:
        """What was read."""
        return tuple(self._found.values())

    @contextlib.contextmanager
    def noted(self, modules: set[int]) -> Iterator[None]:
        """Record all reads of these modules, by their identity, inside of the block.

        The globals of all functions that run there are recorded as well. The garbage collector is
        paused. Raises NotTraceableError for what a function is about to do; and once more after the
        block, as programs and finalizers may suppress errors.
        """

        thread = threading.get_ident()

        def noting(module: Any, name: str) -> Any:
            if id(module) in modules and threading.get_ident() == thread:
                if name not in looks.OF_EVERY_MODULE:
                    self._note_attribute(module, name)
                elif name in _INSIDE and looks.is_of_program(sys._getframe(1), _INSIDE[name]):
                    self._note_inside(module, name)
            return object.__getattribute__(module, name)

        def running(frame: FrameType, event: str, value: Any) -> None:
            if event == "call":
                self._note_run(frame)
            elif event == "c_call" and value in looks.EFFECTS and _is_run(frame):
                raise self.refusal(f"it {looks.EFFECTS[value]} ({value.__name__})")

        kind: Any = nn.Module
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
        if self._refusals:
            raise self._refusals[0]

    def note_method(self, kind: Any, name: str) -> None:
        """Note a function of a class; NotTraceableError if it sets globals or others' variables."""
        self.note((id(kind), name), f"{name_of(kind)}.{name}", partial(looks.method, kind, name))

    def note_class(self, kind: type) -> None:
        """Note what a module's class has beside methods, and those that a graph goes past."""
        if classes_of(kind):
            self.note((id(kind), ""), name_of(kind), lambda: kind)
        for name in ("__call__", "_conv_forward"):
            if hasattr(kind, name):
                self.note_method(kind, name)

    def changed(self) -> list[str]:
        """Undo what a pass changed inside of what it read, and return the names of that."""
        names = changed(self.all)
        for container, copy in self._copies if names else ():
            _refill(container, copy)
        return names

    def note_tensors(self, model: nn.Module, targets: Iterable[str]) -> None:
        """Note by what names the pass knows the tensors that a graph takes from the model.

        A tensor that was read by its name may become another, which is taken then; if there are
        several names, all have to lead to the same one. What was come by otherwise is `held`.
        """
        for target in sorted(targets):
            path, _, name = target.rpartition(".")
            owner = model.get_submodule(path)
            place, called = (weakly(owner), name), f"{name_of(type(owner))}.{name}"
            tensor = looks.tensor(place)
            if not isinstance(tensor, Tensor):
                continue
            names = self._places[id(tensor)]
            if id(tensor) in self.held or not names:
                self.note((id(owner), f"{name} held"), called, partial(looks.tensor, place))
            if names:
                places = [place, *((weakly(each), other) for each, other in names)]
                self.note((id(owner), f"{name} one"), called, partial(looks.are_one, places))

    def note_property(self, owner: nn.Module | Tensor, called: str, name: str, *given: Any) -> None:
        """Note what a tensor is beside its values: one of a module by a name, or without owner."""
        key = id(owner), f"{called}.{name}{given}"
        find = partial(looks.tensor, (weakly(owner), called)) if called else weakly(owner)
        path = f"{name_of(type(owner))}.{called}.{name}" if called else f"Tensor.{name}"
        self.note(key, path, partial(looks.tensor_property, find, name, given))

    def _note_attribute(self, module: nn.Module, name: str) -> None:
        if module._modules.get(name) is not None:
            return
        kind: Any = type(module)
        value = None if name in module.__dict__ else inspect.getattr_static(kind, name, None)
        if isinstance(value, FunctionType):  # which `is_altered` tells from one of the instance
            self.note_method(kind, name)
        elif not _is_computed(value):
            look, key = partial(looks.attribute, weakly(module), name), (id(module), name)
            if key not in self._found and name not in module.__dict__:
                tensor = looks.tensor((weakly(module), name))
                self._places[id(tensor)].append((module, name))
            self.note(key, f"{name_of(kind)}.{name}", look)

    def _note_inside(self, module: nn.Module, name: str) -> None:
        """Note what a module has, which a program goes through itself."""
        key, called = (id(module), name), f"{name_of(type(module))}.{name}"
        if name == "__dict__":
            self.note(key, called, partial(looks.own_attributes, weakly(module)), runs=False)
        for registry in ("_parameters", "_buffers") if name == "__dict__" else (name,):
            look = partial(looks.registered, weakly(module), registry)
            self.note((id(module), registry), called, look)

    def note(
        self, key: tuple[int, str], name: str, look: Callable[[], Any], runs: bool = True
    ) -> None:
        """Note something that is read, once for each key; NotTraceableError if that fails.

        Functions in it are taken to be run, unless told otherwise.
        """
        if key in self._found or key in self._looking:
            return
        self._looking.add(key)  # a program's own ways to attributes lead here again
        try:
            value = look()
            before = snapshot(value, self._note_function if runs else None)
            _, other = self._taken.setdefault(id(value), (value, before))
            before = other if other == before else before  # so that one look is enough
            fixed = value if is_fixed(value, None) else _NOTHING
            code = looks.code_alone(value)
            self._found[key] = Read(
                name, look, before, fixed, code, weakly(value if code else None)
            )
        except TooLargeError:
            self.too_large.append(name)
            return
        except GeneratorError as error:  # before a number is drawn
            raise self.refusal(f"it reads {name}, with {error}") from error
        except NotTraceableError:
            raise
        except Exception as error:  # whatever the program's objects raise
            raise self._unreadable(name, error) from error
        finally:
            self._looking.discard(key)
        if isinstance(value, type):
            self._copies += [(each, data_of(each)) for each in classes_of(value)]
            return
        inside = value if isinstance(value, _CONTAINERS) else getattr(value, "__dict__", None)
        if isinstance(inside, _CONTAINERS) and not isinstance(value, (nn.Module, ModuleType)):
            self._copies.append((inside, (dict if isinstance(inside, dict) else list)(inside)))

    def _unreadable(self, name: str, error: Exception) -> NotTraceableError:
        raised = type(error).__name__
        return self.refusal(f"it reads {name}, which raises {raised} when looked at: {error}")

    def _note_function(self, function: FunctionType) -> None:
        """Note the globals and variables of a function, and of those that it calls by name."""
        if id(function) in self._functions:
            return
        self._functions[id(function)] = function
        package = str(function.__globals__.get("__name__")).partition(".")[0]
        variables = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for number, (name, cell) in enumerate(variables):
            look = partial(looks.variable, weakly(function), number)
            if package not in FOREIGN or isinstance(look(), (FunctionType, MethodType)):
                self.note((id(cell), name), name, look)
        if package in FOREIGN:
            return
        chains, setters = looks.names_in(function.__code__)
        if setters:
            raise self.refusal(f"it sets {', '.join(setters)}")
        self._note_globals(function.__globals__, function.__code__, chains)

    def _note_run(self, frame: FrameType) -> None:
        """Note the globals of a function that is about to run; its variables are the pass's."""
        code = frame.f_code
        if frame.f_globals.get("__name__") == "os" and code.co_name == "__getitem__":
            self._note_environment(frame)
        if id(code) in self._run:
            return
        if not _is_run(frame):
            return
        self._run[id(code)] = code
        chains, setters = looks.names_in(code)
        if names := sorted(set(setters) - set(code.co_freevars)):
            raise self.refusal(f"it sets {', '.join(names)}")
        self._note_globals(frame.f_globals, code, chains)

    def _note_globals(
        self, names: dict[str, Any], code: CodeType, chains: list[tuple[str, ...]]
    ) -> None:
        """Note what code reads by name, also of modules that it imports itself."""
        if ("type",) in chains and any(looks.is_tensor_class(names, chain) for chain in chains):
            raise self.refusal("it asks for the type of tensors")
        for chain in chains:
            try:
                self._note_global(names, chain)
            except NotTraceableError:
                raise
            except Exception as error:  # as in `note`
                raise self._unreadable(".".join(chain), error) from error
        for module, taken in looks.imports_in(code, str(names.get("__package__") or "")):
            for name in taken:
                self.note(
                    (hash(module), name), f"{module}.{name}", partial(looks.imported, module, name)
                )
            if not taken or any(isinstance(looks.imported(module, n), ModuleType) for n in taken):
                self.note((hash(module), ""), module, partial(looks.imported_data, module))

    def _note_environment(self, frame: FrameType) -> None:
        """Note a variable of the environment that the program is about to read."""
        key, variables = frame.f_locals["key"], frame.f_locals["self"]
        if looks.is_of_program(frame, ("os", "collections.abc")):
            self.note((id(variables), str(key)), str(key), partial(variables.get, key))

    def _note_global(self, names: dict[str, Any], chain: tuple[str, ...]) -> None:
        """Note a global, or where it is a module or a class, what is read of it by name."""
        if chain[0] not in names and hasattr(builtins, chain[0]):
            return
        path, further = list(chain[:1]), list(chain[1:])
        value = looks.looked_up(names, path)
        while further and isinstance(value, (ModuleType, type)) and not looks.is_foreign(value):
            path.append(further.pop(0))
            value = looks.looked_up(names, path)
        if isinstance(value, ModuleType) and looks.is_foreign(value) and further:
            if (value, further[0]) == (sys, "modules"):
                raise self.refusal("it reads sys.modules")
            found = looks.looked_up(names, [*path, *further])
            path += further if type(found) in _NUMBERS else []
            value = found if type(found) in _NUMBERS else value
        if not isinstance(value, ModuleType) or not looks.is_foreign(value):
            name = ".".join(path)
            self.note((id(names), name), name, partial(looks.looked_up, names, path))


def changed(reads: Iterable[Read]) -> list[str]:
    """Return the names of what is not as it was read."""
    seen: Seen = {}
    return [read.name for read in reads if not read.is_same(seen)]


def _is_run(frame: FrameType) -> bool:
    return looks.is_of_program(frame) and not looks.is_import(frame)


def _profiler() -> Any:
    """Return who is told of calls; NotTraceableError for one that could not be put back."""
    profiler: Any = sys.getprofile()
    if profiler is None or callable(profiler) or hasattr(profiler, "enable"):
        return profiler
    raise NotTraceableError(f"a {type(profiler).__name__} watches its calls")


def _resume(profiler: Any) -> None:
    """Let a profiler go on; that of cProfile is no function before Python 3.12."""
    if profiler is None or callable(profiler):
        sys.setprofile(profiler)
    else:
        profiler.enable()


def name_of(kind: Any) -> str:
    """Return the name that a program gave a class."""
    return str(getattr(kind, KIND, kind).__name__)


def _is_computed(value: Any) -> bool:
    """Tell whether what a class has is a property, whose own reads are noted."""
    return hasattr(type(value), "__set__") and not hasattr(value, "__objclass__")


def _refill(container: Any, copy: Any) -> None:
    if isinstance(container, type):
        for name in data_of(container).keys() - copy.keys():
            type.__delattr__(container, name)
        for name, value in copy.items():
            if vars(container).get(name, looks.MISSING) is not value:
                type.__setattr__(container, name, value)
        return
    container.clear()
    container.extend(copy) if isinstance(container, (list, deque)) else container.update(copy)
