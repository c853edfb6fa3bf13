"""The traced forward passes of a model, and the conditions under which each is valid."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

from torch import fx, nn

from vectorized_ops.torch._ambient import modes
from vectorized_ops.torch._fusion import fuse
from vectorized_ops.torch._order import keep_order
from vectorized_ops.torch._reads import NotTraceableError, Read, Reads, Seen, changed
from vectorized_ops.torch._tracing import (
    Call,
    bound_forward,
    condition,
    modules_of,
    names_of_arguments,
    trace,
)

Forward = Callable[..., Any]

_KEPT = 8
"""Kept passes of calls with the same values, for models that change back and forth."""
_MOST_KEPT = 64
"""Kept passes of a kind of call, and kept kinds of calls."""
_MOST_FOLLOWED, _MOST_REFUSED = 24, 3
"""How often a kind of call is traced, and refused: models that always change are not worth it."""
_MOST_IN_ALL = 240
"""How often a model is traced, whatever the kind of call."""
_WORTH = 100
"""After so many calls a trace has paid off, and does not count."""

_ONE_FOLLOWS = threading.RLock()
"""PyTorch's classes are changed while a pass is traced."""


class OptimizationWarning(UserWarning):
    """A model whose forward pass cannot be traced: only single modules are replaced."""


@final
class Pass:
    """A pass that was traced, or could not be, for one call; and all that it has read.

    It keeps no modules: `forward` takes them, and tensors, from the model at each call.
    """

    def __init__(self, call: Call, graph: fx.Graph | None, reads: tuple[Read, ...]) -> None:
        self.call, self.forward = call, None if graph is None else _compiled(graph)
        self.served, self._reads = 0, reads

    def is_current(self) -> bool:
        """Tell whether all that was read is unchanged."""
        seen: Seen = {}
        return all(read.is_same(seen) for read in self._reads)

    def changed(self) -> list[str]:
        """Return the names of what is not as it was read."""
        return changed(self._reads)


def _forward_of(kind: Any) -> Forward:
    return lambda model, *args, **kwargs: bound_forward(model, kind)(*args, **kwargs)


def _compiled(graph: fx.Graph) -> Forward:
    """Return a graph as a function of the model and its tensors."""
    code = graph.python_code("self")
    names = dict(code.globals)
    exec(compile(code.src, "<followed pass>", "exec", dont_inherit=True), names)
    forward: Forward = names["forward"]
    return forward


@final
class _Kind:
    """Calls of one kind, in one condition of a model: their passes, those used last in front."""

    def __init__(self, model: nn.Module) -> None:
        modules = modules_of(model)
        self._modules = [weakref.ref(module) for module in modules]
        self._classes = [type(module) for module in modules]  # which keep their identities
        self.known: list[Pass] = []
        self.followed = self.refused = 0

    def is_there(self) -> bool:
        """Tell whether all modules are still alive, and identities those of no others."""
        return all(module() is not None for module in self._modules)

    def find(self, call: Call) -> Pass | None:
        """Return the pass of such a call that holds as things are."""
        for number, found in enumerate(self.known):
            if found.call == call and found.is_current():
                if number:
                    self.known.insert(0, self.known.pop(number))
                found.served += 1
                return found
        return None

    def keep(self, new: Pass) -> None:
        """Put a pass in front; what has not been used for long goes."""
        alike = [found for found in self.known if found.call == new.call]
        gone = {id(found) for found in alike[_KEPT - 1 :]}
        known = [new, *(found for found in self.known if id(found) not in gone)]
        self.known = known[:_MOST_KEPT]

    def changing(self, call: Call, names: list[str]) -> list[str]:
        """Return what makes another pass necessary, with the verb for it."""
        alike = next((found for found in self.known if found.call == call), None)
        if alike is not None:
            return [f"reads {name}" for name in alike.changed()]
        others = [found.call.key for found in self.known]
        given = zip(names, call.key, zip(*others, strict=True), strict=True) if others else ()
        return [f"is given {name}" for name, now, before in given if set(before) != {now}]


@final
@dataclass(slots=True)
class Passes:
    """The passes of a model; copies of the model follow their own."""

    fused: Counter[str] = field(default_factory=Counter)
    singly: Counter[str] = field(default_factory=Counter)
    refused: str = ""
    _kinds: dict[Any, _Kind] = field(default_factory=dict)
    _followed: int = 0
    _warned: set[str] = field(default_factory=set)

    def __reduce__(self) -> Any:
        return Passes, ()

    def find(self, model: nn.Module, kind: Any, call: Call) -> Forward | None:
        """Return the pass of such a call of a model that had this class, as things are.

        It is a function of the model and the call's tensors; None where it cannot be followed.
        """
        key = condition(model), call.kinds, modes()
        here = self._kinds.get(key)
        if here is None or not here.is_there():
            here = self._kinds[key] = _Kind(model)
        found = here.find(call)
        if found is not None:
            if found.served == _WORTH:
                here.followed -= 1
                self._followed -= 1
            return found.forward
        if here.refused >= _MOST_REFUSED:
            return None
        if here.followed >= _MOST_FOLLOWED or self._followed >= _MOST_IN_ALL:
            self._give_up(model, here, kind, call)
            return None
        with _ONE_FOLLOWS:
            here = self._kinds.get(key, here)
            if (found := here.find(call)) is not None:  # which another thread has followed
                return found.forward
            here.followed += 1
            self._followed += 1
            new = self._follow(model, kind, call)
            here.keep(new)
            here.refused += new.forward is None
            self._forget()
        return new.forward

    def _forget(self) -> None:
        """Let go of what was followed for modules that are no more, and of the oldest."""
        for key, here in list(self._kinds.items()):
            if not here.is_there():
                self._kinds.pop(key, None)
        while len(self._kinds) > _MOST_KEPT:
            self._kinds.pop(next(iter(self._kinds)), None)

    def _follow(self, model: nn.Module, kind: Any, call: Call) -> Pass:
        reads, graph = Reads(), None
        try:
            reads.note_method(kind, "forward")
            graph = trace(model, _forward_of(kind), call, reads)
            modules = dict(model.named_modules(remove_duplicate=False))
            with reads.noted({id(module) for module in modules.values()}):
                fused = fuse(graph, modules)
                if reason := keep_order(graph, modules):
                    raise NotTraceableError(reason)
            reads.note_tensors(model, {str(n.target) for n in graph.nodes if n.op == "get_attr"})
            new = Pass(call, graph, reads.all)
            self.fused, self.refused = fused, ""
            return new
        except NotTraceableError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 (whatever the program's objects raise)
            reason = f"{type(error).__name__}: {error}"
        self._refuse(model, f"could not be followed: {reason}", reason)
        return Pass(call, None, reads.all)

    def _give_up(self, model: nn.Module, here: _Kind, kind: Any, call: Call) -> None:
        if here.followed >= _MOST_FOLLOWED:
            what = here.changing(call, names_of_arguments(model, kind, call))
            reason = f"it {', '.join(what)}, which kept changing"
        else:
            reason = "its modules, their flags and hooks, or the kinds of arguments kept changing"
        self._refuse(model, f"is followed no more: {reason} between calls", reason)

    def _refuse(self, model: nn.Module, text: str, reason: str) -> None:
        self.refused = reason
        if reason in self._warned:
            return
        self._warned.add(reason)
        name = type(model).__name__.removeprefix(PREFIX)
        warnings.warn(
            f"{name} {text}; its modules were exchanged one by one",
            OptimizationWarning,
            stacklevel=7,
        )


PREFIX = "Optimized"
"""Of the names of optimised classes."""
