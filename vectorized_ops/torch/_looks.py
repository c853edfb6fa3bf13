"""Reads again what a traced pass has read, without keeping the modules alive."""

from __future__ import annotations

import builtins
import datetime
import dis
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from vectorized_ops.torch._snapshots import FOREIGN

MISSING = "missing"
"""Stands for what is not there."""
PASSES = "_followed_graphs"
"""Where optimised models have their passes."""
OF_MODULES = ("torch.nn.modules.module",)
"""Where PyTorch's functions for every module are."""
REGISTRIES = ("_parameters", "_buffers", "_modules")

OF_EVERY_MODULE = {*nn.Module().__dict__, *dir(nn.Module), PASSES} - {"forward"}
"""Attributes of modules that PyTorch itself uses, and programs seldom."""

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
EFFECTS: dict[Any, str] = {
    **{getattr(time, name + end): "reads the clock" for name in _CLOCKS for end in ("", "_ns")},
    **dict.fromkeys((datetime.datetime.now, datetime.date.today), "reads the clock"),
    **dict.fromkeys((print, warnings.warn), "says something"),
    **dict.fromkeys((open, input), "reads or writes files"),
    **dict.fromkeys((eval, exec), "runs text"),
    globals: "looks through all globals",
    torch.get_num_threads: "asks for settings of PyTorch",
}
"""Functions written in C that a graph would not call again, and what a pass does by them."""

HeldVectors = Callable[[], Any]
"""Gives an object as long as it lives."""
Place = tuple[HeldVectors, str]
"""A module and the name of something in it."""


def attribute(held: HeldVectors, name: str) -> Any:
    """Return what a module has by a name; for tensors and modules that it registers, their kind."""
    module = held()
    try:
        return MISSING if module is None else object.__getattribute__(module, name)
    except AttributeError:
        pass
    for kind in REGISTRIES:
        found = module.__dict__.get(kind, {})
        if name in found:
            return None if found[name] is None else kind
    return MISSING


def tensor(place: Place) -> Any:
    """Return the tensor, or whatever it is, that a module has in a place."""
    own: Any = getattr(place[0](), "__dict__", {})
    for kept in (own.get("_parameters", {}), own.get("_buffers", {}), own):
        if place[1] in kept:
            return kept[place[1]]
    return MISSING


def are_one(places: Iterable[Place]) -> bool:
    """Tell whether the same tensor is in all of these places."""
    return len({id(tensor(place)) for place in places}) == 1


def tensor_property(find: HeldVectors, name: str, given: tuple[Any, ...] = ()) -> Any:
    """Return what a tensor is beside its values: an attribute, or what its method gives."""
    found = getattr(find(), name, MISSING)
    return found(*given) if callable(found) else found


def own_attributes(held: HeldVectors) -> Any:
    """Return what a program has put into a module, by name."""
    own = getattr(held(), "__dict__", {})
    return {name: value for name, value in own.items() if name not in OF_EVERY_MODULE}


def registered(held: HeldVectors, kind: str) -> Any:
    """Return the names of tensors that a module registers, and whether they are there."""
    own = getattr(held(), "__dict__", {}).get(kind, {})
    return tuple((name, value is None) for name, value in own.items())


def method(kind: Any, name: str) -> Any:
    """Return what a class has by a name."""
    return getattr(kind, name, MISSING)


def variable(held: HeldVectors, number: int) -> Any:
    """Return a variable of a function, of those that it has from around it."""
    function = held()
    try:
        return MISSING if function is None else function.__closure__[number].cell_contents
    except ValueError:
        return MISSING


def code_alone(value: Any) -> CodeType | None:
    """Return the code of a function that has neither defaults nor attributes, else nothing."""
    if type(value) is not FunctionType:
        return None
    beside = value.__defaults__ or value.__kwdefaults__ or value.__dict__
    return None if beside else value.__code__


def looked_up(names: dict[str, Any], path: list[str]) -> Any:
    """Return a global, or what is in it by the names that follow."""
    value = names.get(path[0], getattr(builtins, path[0], MISSING))
    for name in path[1:]:
        value = getattr(value, name, MISSING)
    return value


def global_of(names: dict[str, Any], chain: tuple[str, ...]) -> Any:
    """Return a global, or what is in a module by names that follow; no attributes of objects."""
    value = names.get(chain[0], MISSING)
    for name in chain[1:]:
        value = vars(value).get(name, MISSING) if type(value) is ModuleType else MISSING
    return value


def is_tensor_class(names: dict[str, Any], chain: tuple[str, ...]) -> bool:
    """Tell whether a global is the class of tensors or parameters."""
    found = global_of(names, chain)
    return found is Tensor or found is nn.Parameter


def imported(module: str, name: str) -> Any:
    """Return what a module that was imported has by a name."""
    return getattr(sys.modules.get(module), name, MISSING)


def imported_data(module: str) -> Any:
    """Return what a module has beside functions, classes and modules; with modules inside of it."""
    inside = [
        each for name, each in list(sys.modules.items()) if f"{name}.".startswith(f"{module}.")
    ]
    return [
        {name: value for name, value in vars(each).items() if _is_data(name, value)}
        for each in inside
    ]


def _is_data(name: str, value: Any) -> bool:
    return not (name.startswith("__") or callable(value) or isinstance(value, ModuleType))


def imports_in(code: CodeType, package: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the modules of a program that code imports when it runs, and what it takes of them."""
    found: list[tuple[str, tuple[str, ...]]] = []
    before: list[Any] = [None, None]
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            level, taken = before
            name = str(step.argval)
            if level and package:
                name = importlib.util.resolve_name("." * level + name, package)
            if name.partition(".")[0] not in FOREIGN:
                found.append((name, tuple(taken or ())))
        before = [before[1], step.argval]
    return found


def is_foreign(value: Any) -> bool:
    """Tell whether a module, class or function is none of the program's own."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    known = isinstance(value, (ModuleType, type, FunctionType)) or callable(value)
    return known and (name is None or str(name).partition(".")[0] in {*FOREIGN, "builtins"})


def is_of_program(frame: FrameType | None, past: tuple[str, ...] = ()) -> bool:
    """Tell whether a function of the program runs here, or behind those of the modules `past`."""
    while frame is not None and frame.f_globals.get("__name__") in past:
        frame = frame.f_back
    name = "torch" if frame is None else str(frame.f_globals.get("__name__"))
    return name.partition(".")[0] not in FOREIGN


def is_import(frame: FrameType) -> bool:
    """Tell whether a function runs for an import on the way, as PyTorch has them."""
    at: FrameType | None = frame
    while at is not None and not str(at.f_globals.get("__name__")).startswith(_OURS):
        if at.f_code.co_name == "<module>" or at.f_globals.get("__name__") in _IMPORTS:
            return True
        at = at.f_back
    return False


_OURS = "vectorized_ops.torch."
_IMPORTS = {importlib._bootstrap.__name__, importlib._bootstrap_external.__name__}


def names_in(code: CodeType) -> tuple[list[tuple[str, ...]], list[str]]:
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
            inner, more = names_in(constant)
            chains += inner
            setters += [name for name in more if name not in code.co_cellvars]
    return chains, setters
