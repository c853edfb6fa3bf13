"""A model's forward pass as a graph, for one kind of call: torch.fx with fewer silent traps."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from vectorized_ops.torch._alterations import has_hooks, stays_whole
from vectorized_ops.torch._ambient import modes
from vectorized_ops.torch._reads import NotTraceableError, Reads, name_of

TENSOR = Tensor
"""Stands in a `Call` where a tensor was given."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a forward pass was given, tensors left out: `args`, and pairs of name and value."""

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
            if value is None or isinstance(value, (bool, int, float, str)):
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

    @property
    def kinds(self) -> tuple[type, ...]:
        """The types of what was given; 1, 1.0 and True are equal."""
        return tuple(type(value) for value in self._values)

    @property
    def tensors(self) -> int:
        """How many tensors were given."""
        return sum(value is TENSOR for value in self._values)

    @property
    def _values(self) -> tuple[Any, ...]:
        return *self.args, *(value for _, value in self.kwargs)


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
    """Return the graph of forward(model, ...) for such a call, with the modes of this moment.

    What the pass reads beside its arguments is in `reads` afterwards. Raises NotTraceableError for
    a pass that does what would be missing in the graph: looks at values, computes with other
    tensors than its arguments and the model's, sets attributes, draws random numbers outside of
    tensors, or switches gradients or autocast on or off on its way. Attributes and generators are
    as before then.
    """
    attributes, generators = _attributes(model), _generators()
    try:
        nothing_else: Any = _NothingElse
        for module in modules_of(model):
            reads.note_class(type(module))
        noted = reads.noted({id(module) for module in modules_of(model)})
        with noted, _NoValues(), nothing_else():
            graph = _Tracer(forward, call).trace(model)
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


class _NoValues(TorchFunctionMode):
    """No values become Python's while a pass is followed, where `_NothingElse` is not asked."""

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.tolist, Tensor.numpy, Tensor.data_ptr) and type(args[0]) is not _Proxy:
            raise NotTraceableError(f"it looks at values ({func.__name__})")
        return func(*args, **(kwargs or {}))


class _NothingElse(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Nothing is computed while a pass is followed: it would not be done again by the graph."""

    def __torch_dispatch__(
        self, func: Any, _types: Any, _args: Any = (), _kwargs: Any = None
    ) -> Any:
        raise NotTraceableError(f"it computes with tensors that are no arguments ({func})")


def _attributes(model: nn.Module) -> list[tuple[nn.Module, dict[str, Any]]]:
    return [(module, dict(module.__dict__)) for module in model.modules()]


def _restore_attributes(before: list[tuple[nn.Module, dict[str, Any]]]) -> list[str]:
    """Undo what a pass has set; return the names of it."""
    changed = []
    for module, attributes in before:
        now, missing = module.__dict__, object()
        for name in {*now, *attributes}:
            if now.get(name, missing) is not attributes.get(name, missing):
                changed.append(f"{name_of(type(module))}.{name}")
        if changed:
            now.clear()
            now.update(attributes)
    return sorted(changed)


def _generators() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 (models draw from it)
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), (kind, list(keys), *rest)


def _restore_generators(states: tuple[Any, ...]) -> None:
    own, pythons, numpys = states
    torch.set_rng_state(torch.frombuffer(bytearray(own), dtype=torch.uint8))
    random.setstate(pythons)
    np.random.set_state(numpys)  # noqa: NPY002 (see above)


_IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")


class _Proxy(fx.Proxy):
    """A value of the pass; `a += b` writes over it, so that others who have it see the sum."""


for _name in _IN_PLACE:
    _function = getattr(operator, f"i{_name}")

    def _in_place(self: _Proxy, other: Any, function: Any = _function) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    setattr(_Proxy, f"__i{_name}__", _in_place)


class _Tracer(fx.Tracer):
    """Follows the call; modules of PyTorch and of ours, and those with hooks, stay whole."""

    proxy_buffer_attributes = True

    def __init__(self, forward: Callable[..., Any], call: Call) -> None:
        super().__init__()
        self._forward_pass, self._call = forward, call
        self._modes = modes()

    def create_args_for_root(self, *_root_and_its_arguments: Any) -> Any:
        """Make a placeholder per tensor, and let all other arguments be what they were."""
        proxies = [
            self.create_proxy("placeholder", f"tensor_{i}", (), {})
            for i in range(self._call.tensors)
        ]
        args, kwargs = self._call.filled(proxies)
        return lambda root: self._forward_pass(root, *args, **kwargs), [self.root]

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """Return the value of a node."""
        return _Proxy(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Tell whether a module is one node of the graph."""
        ours = type(m).__module__.startswith("vectorized_ops.torch.")
        return ours or has_hooks(m) or super().is_leaf_module(m, module_qualified_name)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """Add a node, under the modes that held when the pass began."""
        if modes() != self._modes:
            raise NotTraceableError("it switches gradients or autocast on or off on its way")
        return super().create_node(*args, **kwargs)
