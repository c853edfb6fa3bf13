"""The order of images in memory, where a program can tell it: PyTorch's own, as in the plain model.

Inside of an optimised model images are channels_last. Results, what hooks see, and views are as if
they were not, unless the model was given channels_last images.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, fx, nn

from vectorized_ops.torch import _looks as looks
from vectorized_ops.torch._alterations import stays_whole
from vectorized_ops.torch._ambient import in_plain_order
from vectorized_ops.torch._snapshots import classes_of
from vectorized_ops.torch._tracing import modules_of

Modules = dict[str, nn.Module]

_VIEWS = ("view", "view_as")
_ORDERS = ("as_strided", "stride", "is_contiguous", "storage_offset", "untyped_storage", "storage")


class _State(threading.local):
    plain = False
    """Whether images were given in PyTorch's order to the model that is running."""


_state = _State()


@contextlib.contextmanager
def order_of(given: Any) -> Iterator[None]:
    """Keep the order of the first tensor that a model is given, in this block and thread."""
    before = _state.plain
    _state.plain = is_in_plain_order(given)
    try:
        yield
    finally:
        _state.plain = before


def is_in_plain_order(given: Any) -> bool:
    """Tell whether the first tensor there is has the order of PyTorch; so has none."""
    first = next(_tensors_in(given), None)
    return first is None or first.layout != torch.strided or first.is_contiguous()


def _tensors_in(given: Any) -> Iterator[Tensor]:
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, (list, tuple, dict)):
        for each in given.values() if isinstance(given, dict) else given:
            yield from _tensors_in(each)


def ordered(result: Any) -> Any:
    """Return images in the order of those that were given; in lists, tuples and dicts as well."""
    return _ordered(result, {}) if _state.plain else result


def _ordered(result: Any, made: dict[int, Tensor]) -> Any:
    """Do so; what was made of tensors by their identities, as they may stand in several places."""
    if isinstance(result, Tensor):
        if id(result) not in made:
            made[id(result)] = result.contiguous() if _are_other(result) else result
        return made[id(result)]
    if type(result) in (list, tuple):
        return type(result)(_ordered(each, made) for each in result)
    if type(result) is dict:
        return {name: _ordered(each, made) for name, each in result.items()}
    return result


def _are_other(tensor: Tensor) -> bool:
    return (
        tensor.layout == torch.strided
        and tensor.dim() == 4
        and tensor.is_contiguous(memory_format=torch.channels_last)
    )


def viewed(tensor: Tensor, *given: Any, method: str = "view", **named: Any) -> Any:
    """Return what a tensor's method for views does, of a copy if need be."""
    try:
        return getattr(tensor, method)(*given, **named)
    except RuntimeError:
        if ordered(tensor) is tensor:
            raise
    return getattr(ordered(tensor), method)(*given, **named)


def call_in_order(module: nn.Module, *args: Any, **named: Any) -> Any:
    """Call a module of which others see what it is given and gives, as it is."""
    if not _state.plain:
        return module(*args, **named)
    with in_plain_order():
        return module(*map(ordered, args), **{name: ordered(each) for name, each in named.items()})


def keep_order(graph: fx.Graph, modules: Modules) -> str:
    """Let others see PyTorch's order in a graph; return what makes that impossible, or nothing."""
    for node in list(graph.nodes):
        if node.op == "call_method" and node.target in _ORDERS:
            return f"it depends on the order of memory ({node.target})"
        if node.op == "call_method" and node.target in _VIEWS:
            node.op, node.kwargs = "call_function", {**node.kwargs, "method": node.target}
            node.target = viewed
        elif node.op == "call_module" and stays_whole(modules[str(node.target)]):
            with graph.inserting_before(node):
                module = graph.get_attr(str(node.target))
            node.op, node.target, node.args = "call_function", call_in_order, (module, *node.args)
        elif node.op == "output":
            _order_results(graph, node)
    return ""


def _order_results(graph: fx.Graph, output: fx.Node) -> None:
    made: dict[fx.Node, fx.Node] = {}

    def result(node: fx.Node) -> fx.Node:
        if node not in made:
            with graph.inserting_before(output):
                made[node] = graph.call_function(ordered, (node,))
        return made[node]

    output.args = fx.node.map_arg(output.args, result)


def asks_for_order(model: nn.Module) -> bool:
    """Tell whether a program's functions speak of views or strides: of a model's classes, or so."""
    return any(_class_asks(type(module)) for module in modules_of(model))


_asking: dict[int, tuple[Any, bool]] = {}
"""By the identities of classes, which are kept."""


def _class_asks(kind: Any) -> bool:
    if id(kind) not in _asking:
        seen: set[int] = set()
        methods = [value for each in classes_of(kind) for value in vars(each).values()]
        _asking[id(kind)] = kind, any(_asks(_function_of(method), seen) for method in methods)
    return _asking[id(kind)][1]


def _function_of(value: Any) -> Any:
    value = getattr(value, "fget", getattr(value, "__func__", value))
    return getattr(value, "__wrapped__", value)


def _asks(function: Callable[..., Any] | None, seen: set[int]) -> bool:
    """Tell whether a function speaks of order, or one that it calls by name."""
    if not isinstance(function, FunctionType) or looks.is_foreign(function) or id(function) in seen:
        return False
    seen.add(id(function))
    names = _names_of(function.__code__)
    chains, _ = looks.names_in(function.__code__)
    called = (looks.global_of(function.__globals__, chain) for chain in chains)
    return not names.isdisjoint((*_VIEWS, *_ORDERS)) or any(_asks(each, seen) for each in called)


def _names_of(code: Any) -> set[str]:
    inner = (each for each in code.co_consts if hasattr(each, "co_names"))
    return set(code.co_names).union(*map(_names_of, inner))
