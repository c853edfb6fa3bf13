"""Traces a model's forward pass into a graph, for one kind of call: a stricter torch.fx."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import FunctionType, MethodType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from vectorized_ops.torch import _looks as looks
from vectorized_ops.torch._alterations import stays_whole
from vectorized_ops.torch._reads import NotTraceableError, Reads, name_of
from vectorized_ops.torch._snapshots import WeakIdentity
from vectorized_ops.torch._tracer import Tracer
from vectorized_ops.torch._values import asked_of_values

TENSOR = Tensor
"""Stands in a `Call` where a tensor was given."""


_SIMPLE = (type(None), bool, int, float, str)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The arguments of a forward pass, without tensors: `args`, and pairs of name and value.

    Calls are equal if their kinds and values are; 0 and -0 differ, and NaN equals NaN.
    """

    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call | None, list[Tensor]]:
        """Return the call and its tensors; None for a call with other values than simple ones."""
        tensors: list[Tensor] = []

        def told(value: Any) -> Any:
            if isinstance(value, Tensor):
                tensors.append(value)
                return TENSOR
            if type(value) in _SIMPLE or isinstance(value, (np.number, np.bool_, Enum)):
                return value
            raise NotTraceableError

        try:
            call = cls(tuple(map(told, args)), tuple((k, told(v)) for k, v in kwargs.items()))
        except NotTraceableError:
            return None, []
        return call, tensors

    def filled(self, tensors: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments with these in the places of the tensors."""
        left = iter(tensors)
        args = [next(left) if value is TENSOR else value for value in self.args]
        kwargs = {name: next(left) if v is TENSOR else v for name, v in self.kwargs}
        return args, kwargs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and (self.kinds, self.key) == (other.kinds, other.key)

    def __hash__(self) -> int:
        return hash(self.kinds)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types of what was given, and the names."""
        return tuple(map(type, self.args)), tuple((name, type(v)) for name, v in self.kwargs)

    @property
    def key(self) -> tuple[Any, ...]:
        """What is equal for equal values alone."""
        return tuple(_exactly(value) for value in self._values)

    @property
    def tensors(self) -> int:
        """How many tensors were given."""
        return sum(value is TENSOR for value in self._values)

    @property
    def _values(self) -> tuple[Any, ...]:
        return *self.args, *(value for _, value in self.kwargs)


def _exactly(value: Any) -> Any:
    if isinstance(value, Enum):
        return WeakIdentity(value)
    return value if type(value) in (type(None), bool, int, str) or value is TENSOR else repr(value)


def names_of_arguments(model: nn.Module, kind: Any, call: Call) -> list[str]:
    """Return the names of what a forward pass is given, in the order of `call.key`."""
    taken = parameters_of(model, kind).values()
    names = [p.name for p in taken if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in taken if p.kind is p.VAR_POSITIONAL), "an argument")
    names += [rest] * (len(call.args) - len(names))
    return [*names[: len(call.args)], *(name for name, _ in call.kwargs)]


def parameters_of(model: nn.Module, kind: Any) -> dict[str, inspect.Parameter]:
    """Return what a forward pass of this class takes; nothing where it does not say so."""
    try:
        return dict(inspect.signature(bound_forward(model, kind)).parameters)
    except (TypeError, ValueError):  # what is written in C has no signature
        return {}


def bound_forward(model: nn.Module, kind: Any) -> Callable[..., Any]:
    """Return the forward pass of a class for a model; it may be static, or written in C."""
    found: Any = inspect.getattr_static(kind, "forward")
    if isinstance(found, FunctionType):
        return MethodType(found, model)
    bound: Any = found.__get__(model, type(model)) if hasattr(type(found), "__get__") else found
    return cast("Callable[..., Any]", bound)


def condition(model: nn.Module) -> tuple[Any, ...]:
    """Return what a graph holds for: the modules, their classes, modes, and alterations."""
    found: list[Any] = []
    for module in modules_of(model):
        found += (id(module), id(type(module)), module.training, stays_whole(module))
    return tuple(found)


def modules_of(model: nn.Module) -> list[nn.Module]:
    """Return the model and all modules in it, each once; quicker than `modules()`."""
    found, known = [model], {id(model)}
    for module in found:  # which grows meanwhile
        for child in module.__dict__["_modules"].values():
            if child is not None and id(child) not in known:
                known.add(id(child))
                found.append(child)
    return found


def trace(model: nn.Module, forward: Callable[..., Any], call: Call, reads: Reads) -> fx.Graph:
    """Return the graph of forward(model, ...) for such a call, under the present modes.

    `reads` then has all that the pass reads besides its arguments. Raises NotTraceableError for a
    pass that does something that the graph would lack:

    - it looks at values, or sets attributes;
    - it computes with other tensors than its arguments and the model's;
    - it draws random numbers outside of tensors;
    - it switches gradients or autocast on or off.

    Attributes and generators are restored.
    """
    attributes, generators = _attributes(model), _generators()
    try:
        nothing_else: Any = _NothingElse
        for module in modules_of(model):
            reads.note_class(type(module))
        noted = reads.noted({id(module) for module in modules_of(model)})
        with noted, _NoValues(model, reads), nothing_else(reads), asked_of_values():
            graph = Tracer(forward, call, reads).trace(model)
        if changed := _restore_attributes(attributes):
            raise NotTraceableError(f"it sets {', '.join(changed)}")
        if _generators() != generators:
            raise NotTraceableError("it draws random numbers outside of tensors")
        _check(reads)
    except NotTraceableError:
        raise
    except Exception as error:  # whatever a model raises when its values are no tensors
        raise NotTraceableError(f"{type(error).__name__}: {error}") from error
    finally:
        _restore_attributes(attributes)
        reads.changed()
        _restore_generators(generators)
    return graph


def _check(reads: Reads) -> None:
    """Raise NotTraceableError for what a pass leaves elsewhere, or what cannot be watched."""
    if changed := reads.changed():
        raise NotTraceableError(f"it changes {', '.join(changed)}")
    if reads.too_large:
        names = ", ".join(reads.too_large)
        raise NotTraceableError(f"it reads {names}, too large to be compared at every call")


_VALUES = (Tensor.tolist, Tensor.numpy, Tensor.data_ptr)
_PROPERTIES = {
    getattr(Tensor, name).__get__: name
    for name in ("requires_grad", "is_leaf", "grad", "dtype", "device", "shape", "ndim", "layout")
} | {Tensor.size: "size", Tensor.dim: "dim", Tensor.numel: "numel", Tensor.stride: "stride"}
"""What a pass may ask of a parameter that is no value of it, and its name."""


class _NoValues(TorchFunctionMode):
    """No values become Python's while a pass is followed, where `_NothingElse` is not asked.

    What else is asked of tensors that are no arguments is noted.
    """

    def __init__(self, model: nn.Module, reads: Reads) -> None:
        super().__init__()
        self._model, self._reads = model, reads

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if args and isinstance(args[0], Tensor):
            if func in _VALUES:
                raise self._reads.refusal(f"it looks at values ({func.__name__})")
            if func in _PROPERTIES:
                self._note(args[0], _PROPERTIES[func], args[1:])
        return func(*args, **(kwargs or {}))

    def _note(self, tensor: Tensor, name: str, given: tuple[Any, ...]) -> None:
        for module in modules_of(self._model):
            for registry in (module.__dict__["_parameters"], module.__dict__["_buffers"]):
                for called, each in registry.items():
                    if each is tensor:
                        self._reads.note_property(module, called, name, *given)
                        return
        self._reads.note_property(tensor, "", name, *given)


class _NothingElse(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Nothing is computed while a pass is followed: it would not be done again by the graph."""

    def __init__(self, reads: Reads) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self._reads = reads

    def __torch_dispatch__(
        self, func: Any, _types: Any, _args: Any = (), _kwargs: Any = None
    ) -> Any:
        raise self._reads.refusal(f"it computes with tensors that are no arguments ({func})")


_Before = list[tuple[nn.Module, dict[str, Any], dict[str, Any]]]


def _attributes(model: nn.Module) -> _Before:
    """Return for each module its own dict and those of what it registers, and copies of them."""
    kept: _Before = []
    for module in modules_of(model):
        own = module.__dict__
        inside = (own, *(own[name] for name in looks.REGISTRIES))
        kept += ((module, each, dict(each)) for each in inside)
    return kept


def _restore_attributes(before: _Before) -> list[str]:
    """Undo what a pass has set; return the names of it."""
    changed, missing = [], object()
    for module, now, then in before:
        names = [n for n in {*now, *then} if now.get(n, missing) is not then.get(n, missing)]
        changed += [f"{name_of(type(module))}.{name}" for name in names]
        if names:
            now.clear()
            now.update(then)
    return sorted(changed)


def _generators() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 (models draw from it)
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), (kind, list(keys), *rest)


def _restore_generators(states: tuple[Any, ...]) -> None:
    own, pythons, numpys = states
    torch.set_rng_state(torch.frombuffer(bytearray(own), dtype=torch.uint8))
    random.setstate(pythons)
    np.random.set_state(numpys)  # noqa: NPY002 (see above)
