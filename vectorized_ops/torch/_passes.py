"""The forward passes of a model that were followed, and what each of them holds for."""

from __future__ import annotations

import threading
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, final

from torch import Tensor, fx, nn

from vectorized_ops.torch._ambient import modes
from vectorized_ops.torch._fusion import fuse
from vectorized_ops.torch._reads import NotTraceableError, Read, Reads, Seen, changed
from vectorized_ops.torch._tracing import Call, condition, modules_of, trace

_KEPT = 8
"""Passes of one kind of call that are kept, for what changes back and forth."""
_MOST_FOLLOWED, _MOST_REFUSED = 24, 3
"""Times that a kind of call is followed, and refused: what always changes is not worth it."""


_ONE_FOLLOWS = threading.RLock()
"""PyTorch's classes are changed while a pass is followed."""


class OptimizationWarning(UserWarning):
    """A model whose forward pass stays as it is, but for single modules."""


@final
@dataclass(slots=True)
class Found:
    """A tensor that a graph takes from a module."""

    owner: nn.Module
    name: str
    value: Tensor
    target: str


@final
class Pass:
    """A pass that was followed, or could not be; what it has read, and the tensors it takes."""

    def __init__(self, model: nn.Module, graph: fx.Graph | None, reads: tuple[Read, ...]) -> None:
        self.graph = None if graph is None else fx.GraphModule(model, graph)
        self._reads, self._modules = reads, modules_of(model)  # which keep their identities
        self._tensors = [] if graph is None else _tensors_of(model, graph)

    def is_current(self) -> bool:
        """Tell whether all that was read is as it was; other tensors are taken over."""
        seen: Seen = {}
        return all(read.is_same(seen) for read in self._reads) and self._takes_tensors()

    def changed(self) -> list[str]:
        """Return the names of what is not as it was read."""
        return changed(self._reads)

    def _takes_tensors(self) -> bool:
        for found in self._tensors:
            now = getattr(found.owner, found.name, None)
            if now is found.value:
                continue
            if not isinstance(now, Tensor):
                return False
            found.value = now
            _put(self.graph, found.target, now)
        return True


def _tensors_of(model: nn.Module, graph: fx.Graph) -> list[Found]:
    found = []
    for target in {str(node.target) for node in graph.nodes if node.op == "get_attr"}:
        path, _, name = target.rpartition(".")
        owner = model.get_submodule(path)
        value = getattr(owner, name)
        if isinstance(value, Tensor):
            found.append(Found(owner, name, value, target))
    return found


def _put(graph: Any, target: str, value: Tensor) -> None:
    """Let a graph take this tensor, whether it was a parameter before or not."""
    path, _, name = target.rpartition(".")
    place = graph.get_submodule(path)
    for kept in (place._parameters, place._buffers, place.__dict__):
        kept.pop(name, None)
    place._buffers[name] = value


@final
@dataclass(slots=True)
class Passes:
    """The passes of a model; copies of the model follow their own."""

    fused: Counter[str] = field(default_factory=Counter)
    singly: Counter[str] = field(default_factory=Counter)
    refused: str = ""
    _known: dict[Any, list[Pass]] = field(default_factory=lambda: defaultdict(list))
    _times: Counter[Any] = field(default_factory=Counter)
    _refusals: Counter[Any] = field(default_factory=Counter)
    _warned: set[str] = field(default_factory=set)

    def __reduce__(self) -> Any:
        return Passes, ()

    def find(self, model: nn.Module, kind: Any, call: Call) -> fx.GraphModule | None:
        """Return the pass of such a call of a model that had this class, as things are.

        None where it cannot be followed.
        """
        key = condition(model), call, call.kinds, modes()
        known = self._known[key]
        for number, found in enumerate(known):
            if found.is_current():
                if number:
                    known.insert(0, known.pop(number))
                return found.graph
        if self._refusals[key] >= _MOST_REFUSED:
            return None
        self._times[key] += 1
        if self._times[key] > _MOST_FOLLOWED:
            self._give_up(model, known)
            return None
        with _ONE_FOLLOWS:
            known.insert(0, self._follow(model, kind, call))
        self._refusals[key] += known[0].graph is None
        del known[_KEPT:]
        while len(self._known) > 8 * _KEPT:
            self._known.pop(next(iter(self._known)))
        return known[0].graph

    def _follow(self, model: nn.Module, kind: Any, call: Call) -> Pass:
        reads, graph = Reads(), None
        try:
            reads.note_method(kind, "forward")
            graph = trace(model, kind.forward, call, reads)
            modules = dict(model.named_modules(remove_duplicate=False))
            with reads.noted({id(module) for module in modules.values()}):
                self.fused = fuse(graph, modules)
            self.refused = ""
        except NotTraceableError as error:
            self._refuse(model, f"could not be followed: {error}", str(error))
        return Pass(model, graph, reads.all)

    def _give_up(self, model: nn.Module, known: list[Pass]) -> None:
        names = ", ".join(known[0].changed())
        reason = f"it reads {names}, which kept changing"
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
