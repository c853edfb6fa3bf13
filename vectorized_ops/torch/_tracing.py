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

TENSOR = Tensor
"""Stands in a `Call` where a tensor was given."""


class NotTraceableError(Exception):
    """A forward pass that a graph does not describe."""


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


def has_hooks(module: nn.Module) -> bool:
    """Tell whether something is to happen when the module is called, beside its work."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def condition(model: nn.Module) -> tuple[Any, ...]:
    """Return what a graph of the model holds for: its modules, their modes and hooks."""
    return tuple((id(module), module.training, has_hooks(module)) for module in model.modules())


def trace(model: nn.Module, forward: Callable[..., Any], call: Call) -> fx.Graph:
    """Return the graph of forward(model, ...) for such a call, with the modes of this moment.

    Raises NotTraceableError for a pass that does what would be missing in the graph: looks at
    values, sets attributes, draws random numbers outside of tensors, or switches gradients or
    autocast on or off on its way. Attributes and generators are as before then.
    """
    attributes, generators = _attributes(model), _generators()
    try:
        graph = _Tracer(forward, call).trace(model)
        if changed := _restore_attributes(attributes):
            raise NotTraceableError(f"it sets {', '.join(changed)}")
        if _generators() != generators:
            raise NotTraceableError("it draws random numbers outside of tensors")
    except NotTraceableError:
        raise
    except Exception as error:  # whatever a model raises when its values are no tensors
        raise NotTraceableError(f"{type(error).__name__}: {error}") from error
    finally:
        _restore_attributes(attributes)
        _restore_generators(generators)
    return graph


def _attributes(model: nn.Module) -> list[tuple[nn.Module, dict[str, Any]]]:
    return [(module, dict(module.__dict__)) for module in model.modules()]


def _restore_attributes(before: list[tuple[nn.Module, dict[str, Any]]]) -> list[str]:
    """Undo what a pass has set; return the names of it."""
    changed = []
    for module, attributes in before:
        now, missing = module.__dict__, object()
        for name in {*now, *attributes}:
            if now.get(name, missing) is not attributes.get(name, missing):
                changed.append(f"{type(module).__name__}.{name}")
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

    def __init__(self, forward: Callable[..., Any], call: Call) -> None:
        super().__init__()
        self._forward_pass, self._call = forward, call
        self._modes = _modes()

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
        if _modes() != self._modes:
            raise NotTraceableError("it switches gradients or autocast on or off on its way")
        return super().create_node(*args, **kwargs)


def _modes() -> tuple[bool, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
    )
