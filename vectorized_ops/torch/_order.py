"""Keeps the memory order of images as in the plain model, wherever a program can see it.

Inside of an optimised model images are channels_last. Results, the arguments of hooks, and views
are in PyTorch's own order, unless the model was given channels_last images.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import Tensor, fx, nn

from vectorized_ops.torch import _looks as looks
from vectorized_ops.torch._alterations import stays_whole
from vectorized_ops.torch._ambient import in_plain_order
from vectorized_ops.torch._gradients import is_batched
from vectorized_ops.torch._rows import pixelwise
from vectorized_ops.torch._snapshots import classes_of
from vectorized_ops.torch._tracing import modules_of

Modules = dict[str, nn.Module]

_VIEWS = ("view", "view_as")
_DRAWN = (
    "dropout", "alpha_dropout", "rrelu", "rrelu_", "rand_like", "randn_like", "randint_like",
    "bernoulli", "bernoulli_", "normal_", "uniform_", "exponential_", "random_",
)  # fmt: skip
"""What draws a random number for each value, in order of memory."""
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


def entered(images: Tensor) -> Tensor:
    """Return images in channels_last memory; their gradient has the order that they came in."""
    own = pixelwise(images)
    if own is not images and own.requires_grad:
        _give_plain_gradient(own)
    return own


def left(result: Any, given: Sequence[Tensor], used: Sequence[Tensor]) -> Any:
    """Return the result of a model that used these tensors in the place of those given.

    What it has written over is written over in those given, and where it returns one, that is it.
    """
    copies = [(one, other) for one, other in zip(given, used, strict=True) if one is not other]
    for one, other in copies:
        if _is_written(one, other):
            one.copy_(other)
    return _ordered(result, {id(other): one for one, other in copies})


def _is_written(given: Tensor, used: Tensor) -> bool:
    """Tell whether a copy of what was given is no copy any more."""
    if used.is_inference():  # which count no versions
        return not torch.equal(given.nan_to_num(), used.nan_to_num())
    return used._version > 0


def ordered(result: Any) -> Any:
    """Return images in the order of those that were given; in lists, tuples and dicts as well.

    They stay the same tensors in another memory, so that autograd knows them; but for views.
    """
    return _ordered(result, {})


def _ordered(result: Any, known: dict[int, Tensor]) -> Any:
    """Do so; what takes the place of tensors by their identities, as they may stand twice."""
    if isinstance(result, Tensor):
        if id(result) not in known:
            known[id(result)] = _in_order(result)
        return known[id(result)]
    if isinstance(result, (list, tuple)):
        parts = [_ordered(each, known) for each in result]
        if all(one is other for one, other in zip(parts, result, strict=True)):
            return result
        return result._make(parts) if hasattr(result, "_make") else type(result)(parts)
    if isinstance(result, dict):
        changed = {name: _ordered(each, known) for name, each in result.items()}
        if all(changed[name] is each for name, each in result.items()):
            return result
        result = copy.copy(result)
        result.update(changed)
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        for field in dataclasses.fields(result):
            value = getattr(result, field.name, None)
            if (part := _ordered(value, known)) is not value:
                object.__setattr__(result, field.name, part)
    return result


def _in_order(tensor: Tensor) -> Tensor:
    if not (_state.plain and _are_other(tensor)):
        return tensor
    if tensor._is_view():
        return tensor.contiguous()
    if not (tensor.is_leaf and tensor.requires_grad):
        tensor.data = tensor.detach().contiguous()
        if tensor.requires_grad:
            _give_plain_gradient(tensor)
    return tensor


def _give_plain_gradient(tensor: Tensor) -> None:
    """Let the gradient of a tensor come in PyTorch's order."""
    register: Any = tensor.register_hook
    register(_plain_gradient)


def _plain_gradient(gradient: Tensor) -> Tensor:
    return gradient if is_batched(gradient) or not _are_other(gradient) else gradient.contiguous()


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
        if not (_state.plain and _are_other(tensor)):
            raise
    return getattr(ordered(tensor), method)(*given, **named)


def call_in_order(module: nn.Module, *args: Any, **named: Any) -> Any:
    """Call a module of which others see what it is given and gives, as it is."""
    if not _state.plain:
        return module(*args, **named)
    with in_plain_order():
        return module(*map(ordered, args), **{name: ordered(each) for name, each in named.items()})


def keep_order(graph: fx.Graph, modules: Modules) -> str:
    """Keep PyTorch's order visible in a graph; return the reason if that is impossible."""
    for node in list(graph.nodes):
        if node.op == "call_method" and node.target in _ORDERS:
            return f"it depends on the order of memory ({node.target})"
        if node.op == "call_method" and node.target in _VIEWS:
            node.op, node.kwargs = "call_function", {**node.kwargs, "method": node.target}
            node.target = viewed
        elif _draws(node, modules):
            _order_argument(graph, node)
        elif node.op == "call_module" and stays_whole(modules[str(node.target)]):
            with graph.inserting_before(node):
                module = graph.get_attr(str(node.target))
            node.op, node.target, node.args = "call_function", call_in_order, (module, *node.args)
    return ""


def _draws(node: fx.Node, modules: Modules) -> bool:
    """Tell whether a node draws a random number for each value of its first argument."""
    if node.op == "call_module":
        module = modules[str(node.target)]
        return isinstance(module, (nn.Dropout, nn.AlphaDropout, nn.RReLU))
    return getattr(node.target, "__name__", node.target) in _DRAWN


def _order_argument(graph: fx.Graph, node: fx.Node) -> None:
    images = next(iter(node.all_input_nodes), None)
    if images is not None:
        with graph.inserting_before(node):
            node.replace_input_with(images, graph.call_function(ordered, (images,)))


def asks_for_order(model: nn.Module) -> bool:
    """Tell whether a program's functions speak of views, strides or random numbers, or hooks see.

    The functions are those of a model's classes, and what these call.
    """
    return any(_class_asks(type(module)) or _is_seen(module) for module in modules_of(model))


def _is_seen(module: nn.Module) -> bool:
    own = module.__dict__
    return bool(own["_forward_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"])


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
    """Tell whether what a function speaks of depends on order, or one that it calls by name."""
    if not isinstance(function, FunctionType) or looks.is_foreign(function) or id(function) in seen:
        return False
    seen.add(id(function))
    names = _names_of(function.__code__)
    chains, _ = looks.names_in(function.__code__)
    called = [looks.global_of(function.__globals__, chain) for chain in chains]
    asks = not names.isdisjoint((*_VIEWS, *_ORDERS)) or any(map(_is_drawing, called))
    return asks or any(_asks(each, seen) for each in called)


def _is_drawing(value: Any) -> bool:
    """Tell whether a global is a function that draws for each value, and writes over none."""
    is_function = isinstance(value, (FunctionType, BuiltinFunctionType))
    return is_function and value.__name__ in _DRAWN and not value.__name__.endswith("_")


def _names_of(code: Any) -> set[str]:
    inner = (each for each in code.co_consts if hasattr(each, "co_names"))
    return set(code.co_names).union(*map(_names_of, inner))
